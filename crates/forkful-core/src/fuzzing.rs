//! Fuzz targets: what is read of a supervisor, which comes from a daemon of another version by memory that this daemon has not written, and CPU profiles,
//! which come from workers.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::profile::{CpuProfile, Functions};
use crate::snapshot::{self, read, write};
use crate::supervisor::{AppSupervisor, Effect};

/// Any bytes, and any body behind a head that is right. What can be read is read again from what is written of it.
pub fn supervisor(bytes: &[u8]) {
    assert!(read::<AppSupervisor>(bytes).is_err() || bytes.len() > snapshot::HEAD);
    let body = bytes.get(snapshot::HEAD..).filter(|_| bytes.starts_with(&snapshot::MAGIC)).unwrap_or(bytes);
    let mut whole = [&[0; snapshot::HEAD], body].concat();
    snapshot::seal(&mut whole).expect("inputs are small");
    again::<AppSupervisor>(&whole);
    again::<Vec<Effect>>(&whole);
    let length = whole.len();
    for cut in [1, snapshot::HEAD, length / 2] {
        assert!(read::<AppSupervisor>(&whole[..length - cut.min(length)]).is_err());
    }
}

fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Ok((value, rest)) = read::<T>(bytes) else { return };
    assert!(rest.is_empty());
    let mut written = Vec::new();
    write(&value, &mut written).expect("what was read can be written");
    assert_eq!(read::<T>(&written), Ok((value, &[][..])));
}

/// Any bytes as a CPU profile. What is read is a tree whose times add up, and its functions have all of the time in JavaScript.
pub fn profile(bytes: &[u8]) {
    let Ok(profile) = CpuProfile::parse(bytes) else { return };
    let mut own_us = 0_u64;
    for (at, node) in profile.nodes.iter().enumerate() {
        assert_eq!(node.parent.is_none(), at == 0);
        assert!(node.parent.is_none_or(|parent| parent < at));
        assert!(node.frame < profile.frames.len() && node.total_us >= node.own_us);
        own_us = own_us.saturating_add(node.own_us);
    }
    assert_eq!(own_us, profile.total_us());
    let functions = Functions::of(&profile);
    let charged = functions.hottest.iter().fold(0_u64, |sum, time| sum.saturating_add(time.charged_us));
    assert_eq!(charged, functions.charged_us);
    assert!(functions.charged_us <= profile.total_us());
    for time in &functions.hottest {
        assert!(time.charged_us <= time.total_us && time.total_us <= profile.total_us());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_profiles() {
        forkful_testkit::replay("profile", super::profile);
    }

    #[test]
    fn corpus_of_supervisors() {
        forkful_testkit::replay("supervisor", super::supervisor);
    }
}
