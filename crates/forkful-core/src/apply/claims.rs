//! Which apps the plans under way change: no two of them, and no other command that is under way, may change the same app.

use std::collections::BTreeSet;
use std::fmt;

use super::{Apply, Change, Planned};
use crate::spec::AppName;
use crate::supervisor::AppSupervisor;

/// The apps that plans under way change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    names: BTreeSet<AppName>,
}

/// What another command is doing to an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Reloading,
    Ending,
}

impl Doing {
    /// What keeps a plan from changing an app.
    pub fn of(app: &AppSupervisor) -> Option<Self> {
        match (app.is_reloading_by_command(), app.is_ending()) {
            (true, _) => Some(Self::Reloading),
            (false, true) => Some(Self::Ending),
            (false, false) => None,
        }
    }
}

/// Why a plan may not begin now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Another plan changes these apps.
    Applied(Vec<AppName>),
    Busy(AppName, Doing),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "another `apply` is changing {}", names.join(", "))
            }
            Self::Busy(name, Doing::Reloading) => write!(f, "`{name}` is being reloaded"),
            Self::Busy(name, Doing::Ending) => write!(f, "`{name}` is being stopped or deleted"),
        }
    }
}

impl std::error::Error for Conflict {}

impl Claims {
    /// Whether no plan is under way that changes an app.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A plan begins: returns the apps that it changes, for [`Self::release`]. `doing` says what another command does to an
    /// app.
    pub fn claim<D: Clone>(
        &mut self,
        plan: &Apply<Planned<D>>,
        doing: impl Fn(&AppName) -> Option<Doing>,
    ) -> Result<BTreeSet<AppName>, Conflict> {
        let names = || plan.steps().iter().map(|step| &step.app.name);
        // An app that stays as it is counts too: it may have been compared in the middle of the other plan.
        let taken: Vec<AppName> = names().filter(|name| self.names.contains(*name)).cloned().collect();
        if !taken.is_empty() {
            return Err(Conflict::Applied(taken));
        }
        if let Some((name, doing)) = names().find_map(|name| Some((name.clone(), doing(name)?))) {
            return Err(Conflict::Busy(name, doing));
        }
        Ok(self.resume(plan))
    }

    /// The same for a plan that another daemon had begun.
    pub fn resume<D: Clone>(&mut self, plan: &Apply<Planned<D>>) -> BTreeSet<AppName> {
        let changes = plan.steps().iter().filter(|step| step.change != Change::Keep);
        let names: BTreeSet<AppName> = changes.map(|step| step.app.name.clone()).collect();
        self.names.extend(names.iter().cloned());
        names
    }

    /// A plan has ended, or was undone.
    pub fn release(&mut self, names: &BTreeSet<AppName>) {
        self.names.retain(|name| !names.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Step;
    use crate::spec::Mode;

    fn plan(changes: &[(&str, Change)]) -> Apply<Planned<()>> {
        Apply::new(changes.iter().map(|(name, change)| {
            let name = AppName::new(*name).unwrap();
            let app = Planned { name, mode: Mode::Fork, wanted: (), before: Some(()) };
            Step { app, change: *change, existed: true }
        }))
    }

    #[test]
    fn two_plans_do_not_change_the_same_app() {
        let mut claims = Claims::default();
        let first = plan(&[("web", Change::Reload), ("db", Change::Keep)]);
        let names = claims.claim(&first, |_| None).unwrap();
        for change in [Change::Remove, Change::Keep] {
            let fault = claims.claim(&plan(&[("web", change)]), |_| None).unwrap_err();
            assert_eq!(fault.to_string(), "another `apply` is changing `web`");
        }
        let beside = claims.claim(&plan(&[("db", Change::Scale)]), |_| None).unwrap();
        claims.release(&names);
        assert!(claims.claim(&first, |_| None).is_err(), "the other one is still under way");
        claims.release(&beside);
        assert!(claims.is_empty() && claims.claim(&first, |_| None).is_ok());
    }

    #[test]
    fn an_app_that_another_command_changes_is_not_claimed() {
        let mut claims = Claims::default();
        let table = [
            (Doing::Reloading, "`db` is being reloaded"),
            (Doing::Ending, "`db` is being stopped or deleted"),
        ];
        for (doing, told) in table {
            let busy = |name: &AppName| (name.as_str() == "db").then_some(doing);
            let fault =
                claims.claim(&plan(&[("web", Change::Start), ("db", Change::Keep)]), busy).unwrap_err();
            assert_eq!(fault.to_string(), told);
            assert!(claims.is_empty());
        }
    }
}
