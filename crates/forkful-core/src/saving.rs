//! When the state is saved, and which replies wait for it: what a reply says must hold after a crash too.
//!
//! Changes are recorded; before a reply is sent, and at the end of each turn, a state with all changes is
//! passed to the writer. A reply waits until the newest state passed before it is on disk.

/// The status of a daemon's saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saving {
    is_changed: bool,
    /// The state on disk belongs to the previous daemon and was not restored.
    is_of_before: bool,
    /// The state on disk is this daemon's own, or was restored by it.
    is_own: bool,
    newest: u64,
}

/// A state to write now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Save {
    /// Increases from 1.
    pub number: u64,
    /// The existing state belongs to the previous daemon, and is kept next to the new one.
    pub keep: bool,
}

impl Default for Saving {
    fn default() -> Self {
        Self { is_changed: false, is_of_before: true, is_own: false, newest: 0 }
    }
}

impl Saving {
    /// The desired state differs from the saved one.
    pub fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// The state to write now, if it has changed.
    pub fn begin(&mut self) -> Option<Save> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.newest += 1;
        self.is_own = true;
        Some(Save { number: self.newest, keep: std::mem::take(&mut self.is_of_before) })
    }

    /// The state that must be on disk before a reply that is ready now is sent; `None` before the first.
    pub fn ticket(&self) -> Option<u64> {
        (self.newest > 0).then_some(self.newest)
    }

    /// The newest saved state was read, and belongs to this daemon. `is_whole`: all of the state that the
    /// next save replaces was restored, so nothing of it must be kept.
    pub fn take_up(&mut self, is_whole: bool) {
        self.is_own = true;
        self.is_of_before &= !is_whole;
    }

    /// Whether the state on disk is this daemon's own, or was restored by it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }
}

/// Whether a reply with this ticket may be sent if this state is the newest on disk.
pub fn may_reply(ticket: Option<u64>, saved: u64) -> bool {
    ticket.is_none_or(|ticket| ticket <= saved)
}

/// Whether a kept state with entries of these names may be removed for another one: that one contains all its
/// apps. Entries without a name are never covered.
pub fn is_covered<T: PartialEq>(kept: &[Option<T>], by: &[Option<T>]) -> bool {
    kept.iter().all(|name| name.is_some() && by.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_waits_for_the_state_with_all_changes_before_it() {
        let mut saving = Saving::default();
        assert_eq!((saving.begin(), saving.ticket()), (None, None));
        assert!(may_reply(saving.ticket(), 0));
        saving.note_change();
        saving.note_change();
        assert_eq!(saving.begin(), Some(Save { number: 1, keep: true }));
        assert_eq!(saving.begin(), None, "nothing is new");
        assert!(!may_reply(saving.ticket(), 0) && may_reply(saving.ticket(), 1));
        saving.note_change();
        assert_eq!(saving.begin(), Some(Save { number: 2, keep: false }));
        assert!(!may_reply(saving.ticket(), 1));
    }

    #[test]
    fn a_kept_state_makes_room_only_for_one_with_all_its_apps() {
        assert!(is_covered(&[Some("a")], &[Some("b"), Some("a")]));
        assert!(!is_covered(&[Some("a"), Some("c")], &[Some("b"), Some("a")]));
        assert!(!is_covered(&[None], &[Some("b"), None]));
    }

    #[test]
    fn the_state_of_the_daemon_before_is_kept_unless_it_was_taken_up_as_a_whole() {
        for (is_whole, keep) in [(true, false), (false, true)] {
            let mut saving = Saving::default();
            assert!(!saving.is_own());
            saving.take_up(is_whole);
            assert!(saving.is_own());
            saving.note_change();
            assert_eq!(saving.begin(), Some(Save { number: 1, keep }));
        }
    }
}
