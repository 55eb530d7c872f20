//! A fuzz target: what is read of a supervisor. It comes from a daemon of another version, by memory that this daemon has
//! not written.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

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

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_supervisors() {
        forkful_testkit::replay("supervisor", super::supervisor);
    }
}
