//! How many incidents are kept.

use std::collections::BTreeMap;

/// Incidents that are kept at most.
pub const ENTRIES_MAX: usize = 200;
/// Bytes of their files at most.
pub const BYTES_MAX: u64 = 10 << 20;
/// Maximum incidents of an app that are not faults. An app that scales up and down every day must not push its crashes out.
pub const ROUTINE_MAX: usize = 30;

/// An incident that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number; later ones are higher.
    pub id: u64,
    pub app: &'a str,
    pub bytes: u64,
    /// Whether something was wrong; see [`IncidentKind::is_fault`](super::IncidentKind::is_fault).
    pub is_fault: bool,
}

/// The incidents that go, so that the rest is within the bounds: always the oldest of the app that has the most. So an app that
/// crashes again and again does not push the incidents of others out. What is no fault goes before, beyond [`ROUTINE_MAX`].
pub fn surplus(entries: &[Entry<'_>]) -> Vec<u64> {
    let mut by_app: BTreeMap<&str, Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in entries {
        by_app.entry(entry.app).or_default().push(entry);
    }
    let (mut count, mut bytes) = (entries.len(), entries.iter().map(|entry| entry.bytes).sum::<u64>());
    let mut gone = Vec::new();
    for of in by_app.values_mut() {
        // The oldest one at the end, where it is taken from.
        of.sort_by_key(|entry| std::cmp::Reverse(entry.id));
        let mut routine = 0;
        of.retain(|entry| {
            routine += usize::from(!entry.is_fault);
            let stays = entry.is_fault || routine <= ROUTINE_MAX;
            if !stays {
                (count, bytes) = (count - 1, bytes - entry.bytes);
                gone.push(entry.id);
            }
            stays
        });
    }
    while count > ENTRIES_MAX || bytes > BYTES_MAX {
        let most = by_app.values_mut().max_by_key(|of| (of.len(), of.last().map(|e| u64::MAX - e.id)));
        let Some(oldest) = most.and_then(Vec::pop) else { break };
        (count, bytes) = (count - 1, bytes - oldest.bytes);
        gone.push(oldest.id);
    }
    gone
}
