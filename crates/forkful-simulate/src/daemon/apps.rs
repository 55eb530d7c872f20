//! The apps of the daemon. Most events concern connections and change no app: the next deadline of all supervisors is
//! found anew only after an app may have changed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;

use forkful_core::Time;
use forkful_core::supervisor::AppId;

use super::App;

/// See the module's documentation. Whatever changes an app goes through these methods.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    all: BTreeMap<AppId, App>,
    /// The next deadline, unless an app may have changed since it was found.
    #[expect(clippy::option_option, reason = "no deadline is known, too")]
    wake: Cell<Option<Option<Time>>>,
    /// The minute up to which all renewals were checked, unless an app may have changed since.
    renewed: Cell<Option<u64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as the functions of a map")]
impl Apps {
    pub(super) fn get_mut(&mut self, id: &AppId) -> Option<&mut App> {
        self.forget();
        self.all.get_mut(id)
    }

    pub(super) fn insert(&mut self, id: AppId, app: App) {
        self.forget();
        self.all.insert(id, app);
    }

    pub(super) fn remove(&mut self, id: &AppId) {
        self.forget();
        self.all.remove(id);
    }

    fn forget(&mut self) {
        self.wake.take();
        self.renewed.take();
    }

    /// Whether renewals up to this minute are checked for the first time since an app may have changed.
    pub(crate) fn begins_minute(&self, minute: u64) -> bool {
        self.renewed.replace(Some(minute)) != Some(minute)
    }

    /// The next deadline of a supervisor.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let find = || self.all.values().filter_map(|app| app.supervisor.next_wake()).min();
        let wake = self.wake.get().unwrap_or_else(find);
        self.wake.set(Some(wake));
        wake
    }
}

impl Deref for Apps {
    type Target = BTreeMap<AppId, App>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
