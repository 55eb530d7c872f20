//! `POST /v1/apps`: what is to be started, and how the daemon read it.

use forkful_core::start::{IfRunning, Reading};
use serde::{Deserialize, Serialize};

use super::{AppChange, AppDefinition, ErrorCode, ErrorReply, TARGETS_MAX};

/// `POST /v1/apps`: start apps, in one step: all is checked before the first one starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// New apps, in the order in which they start. An app of the same name that does not run gets the definition and
    /// starts; if one runs, the request is refused.
    #[cfg_attr(test, schemars(length(max = TARGETS_MAX)))]
    #[serde(default)]
    pub apps: Vec<AppDefinition>,
    /// Targets as of `forkful start`; the daemon decides what each means.
    #[cfg_attr(test, schemars(length(max = TARGETS_MAX)))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<StartTarget>,
    /// New values for the existing apps that targets name; without `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<AppChange>,
    /// Existing apps that are defined again get the caller's environment as it is in their definitions. By default they keep the
    /// variables that they inherited, and a program that was found in their PATH.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub update_env: bool,
    /// Reply only when each app is ready or has failed.
    pub wait: bool,
    /// Create new apps, but leave all their workers stopped, whatever `autostart` says. Targets must leave existing apps
    /// as they are.
    #[serde(default)]
    pub stopped: bool,
}

impl StartRequest {
    /// Checks the requirements of a request beyond its types.
    ///
    /// # Errors
    /// The violated requirement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let defined: usize = self.targets.iter().map(|target| target.apps.len()).sum();
        let named = self.apps.len().max(self.targets.len()).max(defined);
        if named == 0 || named > TARGETS_MAX {
            return Err(format!("a start names 1 to {TARGETS_MAX} apps"));
        }
        if !self.targets.is_empty() && !self.apps.is_empty() {
            return Err("a start has either `apps` or `targets`".to_owned());
        }
        let may_start_existing =
            |target: &StartTarget| target.text.is_some() || target.if_running != IfRunning::LeaveExisting;
        if self.stopped && self.targets.iter().any(may_start_existing) {
            return Err("`stopped` is for new apps: targets have no `text`, and leave existing apps as they are (`leave_existing`)"
                .to_owned());
        }
        if self.change.is_some() && self.targets.is_empty() {
            return Err("the `change` of a start is for the existing apps of its `targets`".to_owned());
        }
        let says_nothing =
            |target: &StartTarget| target.text.is_none() && target.apps.is_empty() && target.fault.is_none();
        if self.targets.iter().any(says_nothing) {
            return Err("a target of a start has a `text`, `apps`, or a `fault`".to_owned());
        }
        if self.change.as_ref().is_some_and(|change| change.name.is_some()) {
            return Err("the `change` of a start is for the existing apps of its targets: it has no `name`"
                .to_owned());
        }
        let defined = self.targets.iter().flat_map(|target| &target.apps);
        self.apps.iter().chain(defined).try_for_each(AppDefinition::check_kinds)?;
        self.change.as_ref().map_or(Ok(()), AppChange::check_kinds)
    }
}

/// A target of a start: the name of existing apps, definitions of apps, or a text that could be either.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartTarget {
    /// The text, if it may name existing apps: names, ids, namespaces, `/patterns/` of names, or `all`. Existing apps that
    /// it names start, or restart if they run.
    #[serde(default)]
    pub text: Option<String>,
    /// The text is the name of one app, and no id, namespace or pattern.
    #[serde(default)]
    pub is_name: bool,
    /// A file of this name exists.
    #[serde(default)]
    pub is_there: bool,
    /// The text is a file, or a program in the caller's PATH.
    #[serde(default)]
    pub can_be_started: bool,
    /// The apps that the target defines, if it does not name existing ones.
    #[serde(default)]
    pub apps: Vec<AppDefinition>,
    /// What to do with an app of `apps` that already runs.
    #[serde(default)]
    pub if_running: IfRunning,
    /// Why the text defines no app: the refusal, if it names no existing app either.
    #[serde(default)]
    pub fault: Option<StartFault>,
}

/// Why a text defines no app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartFault {
    /// One sentence without a full stop.
    pub error: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
    /// The URL of the page that explains the hint.
    #[serde(default)]
    pub see: Option<String>,
}

impl From<StartFault> for ErrorReply {
    fn from(StartFault { error, hint, see }: StartFault) -> Self {
        Self { code: ErrorCode::BadRequest, error, hint, see }
    }
}

/// How the daemon read a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TargetMeaning {
    /// `existing`: it names existing apps; `definition`: it defines apps.
    pub reading: Reading,
    /// Its apps; of a definition in the same order.
    pub apps: Vec<MeantApp>,
}

/// An app of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeantApp {
    /// Its name, which another one of the same name may have changed.
    pub name: String,
    /// What is done with it.
    pub step: StartStep,
}

forkful_core::named! {
    /// What a start does with an app.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum StartStep {
        /// It did not exist: it is created.
        New = "new",
        /// It exists and does not run: it starts.
        Start = "start",
        /// It runs: it restarts.
        Restart = "restart",
        /// It exists, and stays as it is, as `if_running` says.
        Left = "left",
        /// It runs, and stays as it is, which is an error.
        Refused = "refused",
    }
}
