//! `POST /v1/apply`: the apps become what a configuration says.

use std::collections::BTreeMap;

use forkful_core::apply::{Change, Planned, Step, plan};
use forkful_core::spec::AppSpec;
use serde::{Deserialize, Serialize};

use crate::definition::changes;
#[cfg(test)]
use crate::types::TARGETS_MAX;
use crate::types::{AppDefinition, AppOutcome, Deployment, ErrorReply};

/// What the apps are to become. Missing apps start, apps with another definition or other code are reloaded, the others
/// stay as they are. When a new version does not become ready, everything that the request has done is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// The apps, complete.
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub apps: Vec<AppDefinition>,
    /// Delete all other apps in the namespaces of these.
    #[serde(default)]
    pub prune: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Apps that exist get the caller's environment as it is in their definitions. By default they keep the variables that they
    /// inherited, and a program that was found in their PATH.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub update_env: bool,
    /// When a file of an app's code last changed, by the app's name, in milliseconds since 1970. An app without an entry
    /// counts as changed.
    #[serde(default)]
    pub code_changed_at_ms: BTreeMap<String, u64>,
    /// The version that a deployment brings, such as `3f2a9c1 Faster search`. It is recorded as an incident of each app that is reloaded.
    /// 1 to 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
}

/// What is to be done to an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApplyChange {
    /// It does not exist, or does not run: it starts.
    Start,
    /// Its workers are replaced one by one.
    Reload,
    /// The number of its workers changes.
    Scale,
    /// Nothing.
    Keep,
    /// It goes.
    Delete,
}

/// One app of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedApp {
    /// Its name.
    pub name: String,
    /// What is to be done to it.
    pub change: ApplyChange,
    /// What is different from now, one sentence each.
    pub notes: Vec<String>,
}

/// The plan, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApplyReply {
    /// Every app that the request names, and those that it deletes, in the order of the steps.
    pub plan: Vec<PlannedApp>,
    /// What became of each step that was carried out; empty with `dry_run`. When one failed, it is the last.
    pub apps: Vec<AppOutcome>,
    /// After a failure: what became of taking back the steps before it.
    pub undone: Vec<AppOutcome>,
}

impl PlannedApp {
    /// A step of a plan, for people.
    pub fn of(step: &Step<Planned<Box<AppDefinition>>>) -> Self {
        let Planned { name, wanted, before, .. } = &step.app;
        let change = match step.change {
            Change::Start => ApplyChange::Start,
            Change::Reload => ApplyChange::Reload,
            Change::Scale => ApplyChange::Scale,
            Change::Keep => ApplyChange::Keep,
            Change::Remove => ApplyChange::Delete,
        };
        let mut notes = before.as_ref().map_or_else(Vec::new, |before| changes(before, wanted));
        if let Some(before) = before.as_ref().filter(|_| step.change == Change::Scale) {
            let workers = if wanted.instances == 1 { "worker" } else { "workers" };
            notes.insert(0, format!("{} → {} {workers}", before.instances, wanted.instances));
        }
        if step.change == Change::Reload && notes.is_empty() {
            notes.push("a file in its folder is newer than its processes".to_owned());
        }
        Self { name: name.to_string(), change, notes }
    }
}

/// The plan of a configuration where no app exists, so that no daemon is needed for it.
pub fn plan_without_apps(apps: Vec<AppDefinition>) -> Result<ApplyReply, ErrorReply> {
    let convert = |definition: AppDefinition| {
        let spec = AppSpec::try_from(definition.clone()).map_err(ErrorReply::from)?;
        Ok((spec, Box::new(definition)))
    };
    let wanted = apps.into_iter().map(convert).collect::<Result<_, ErrorReply>>()?;
    let plan = plan(wanted, &[], false, |spec| Box::new(AppDefinition::from(spec)))?;
    let plan = plan.steps().iter().map(PlannedApp::of).collect();
    Ok(ApplyReply { plan, apps: Vec::new(), undone: Vec::new() })
}
