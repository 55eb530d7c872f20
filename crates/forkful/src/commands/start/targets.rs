//! The targets of `start` for the daemon: what each is as something to start, which needs this machine's files and
//! programs. Which of a name and a file is meant, [`forkful_core::start`] decides.

use std::ffi::OsStr;
use std::path::Path;

use forkful_api::client::{Client, ClientError};
use forkful_api::types::{AppDefinition, ErrorReply, StartFault, StartTarget, TargetMeaning};
use forkful_config::AppOptions;
use forkful_core::start::{IfRunning, Reading, Written};

use super::{distinct, from_target};
use crate::commands::targets::check_pattern;
use crate::connection;
use crate::exit::{Failure, See};
use crate::home::Home;
use crate::output;
use crate::specs::{Specs, is_config};

/// Targets, with what is told when the daemon has read them.
#[derive(Default)]
pub(crate) struct Targets {
    targets: Vec<StartTarget>,
    asides: Asides,
}

/// One entry for each target.
#[derive(Default)]
pub(super) struct Asides(Vec<Aside>);

#[derive(Default)]
struct Aside {
    /// What is odd about the definition, if the target is read as one.
    warnings: Vec<String>,
    /// Why it is nothing that can be started.
    failure: Option<Failure>,
}

impl Targets {
    /// Apps that are defined elsewhere, and that are not started if they already run.
    pub(crate) fn of_new(apps: Vec<AppDefinition>) -> Self {
        let target = StartTarget { apps, ..StartTarget::default() };
        Self { targets: vec![target], asides: Asides(vec![Aside::default()]) }
    }

    /// Adds a target as the user wrote it. With `force`, an app that already runs gets a second one beside it.
    pub(super) fn add(
        &mut self,
        specs: &Specs,
        options: &AppOptions,
        target: &str,
        force: bool,
    ) -> Result<(), Failure> {
        if is_config(target) {
            let if_running = if force { IfRunning::StartAnother } else { IfRunning::Restart };
            let apps = from_target(specs, options, target)?.iter().map(AppDefinition::from).collect();
            self.push(StartTarget { apps, if_running, ..StartTarget::default() }, Aside::default());
            return Ok(());
        }
        self.add_text(target, options.text("name"), force, || {
            let (app, warnings) = specs.app_and_warnings(target, options)?;
            Ok((vec![AppDefinition::from(&app)], warnings))
        })
    }

    /// Adds a text that names existing apps, or is something to start: then `define` says what, with warnings. What is
    /// started gets the name `new_name`, if there is one.
    pub(crate) fn add_text(
        &mut self,
        text: &str,
        new_name: Option<&str>,
        force: bool,
        define: impl FnOnce() -> Result<(Vec<AppDefinition>, Vec<String>), Failure>,
    ) -> Result<(), Failure> {
        check_pattern(text)?;
        let (is_there, can_be_started) = (Path::new(text).exists(), can_be_started(text));
        let written = Written { text, is_there, can_be_started, new_name };
        let if_running = if force { IfRunning::StartAnother } else { IfRunning::Refuse };
        let mut aside = Aside::default();
        let mut sent = StartTarget { if_running, ..StartTarget::default() };
        if written.reading(true) == Some(Reading::Definition) {
            let (apps, warnings) = define()?;
            warnings.iter().for_each(|warning| output::warn(warning));
            sent.apps = apps;
        } else {
            (sent.text, sent.is_there) = (Some(text.to_owned()), is_there);
            sent.can_be_started = can_be_started;
            if written.reading(false).is_some() {
                match define() {
                    Ok((apps, warnings)) => (sent.apps, aside.warnings) = (apps, warnings),
                    Err(failure) => {
                        sent.fault = Some(fault(&failure));
                        aside.failure = Some(failure);
                    }
                }
            }
        }
        self.push(sent, aside);
        Ok(())
    }

    /// Adds a text that can only be the name of one existing app.
    pub(crate) fn add_name(&mut self, text: String) {
        self.push(
            StartTarget { text: Some(text), is_name: true, ..StartTarget::default() },
            Aside::default(),
        );
    }

    fn push(&mut self, target: StartTarget, aside: Aside) {
        self.targets.push(target);
        self.asides.0.push(aside);
    }

    /// Whether a target may name an app that exists.
    pub(super) fn may_exist(&self) -> bool {
        self.targets.iter().any(|target| target.text.is_some())
    }

    /// Checks the targets where there is no daemon, and thus no app, so that no daemon is started for nothing.
    pub(crate) fn check_without_apps(&mut self, home: &Home) -> Result<(), Failure> {
        for (target, aside) in self.targets.iter().zip(&mut self.asides.0) {
            if let (Some(text), true) = (&target.text, target.apps.is_empty()) {
                return Err(match aside.failure.take() {
                    Some(failure) => connection::or_saved(home, text, failure),
                    None => connection::no_such_app(home, text),
                });
            }
        }
        let apps: Vec<AppDefinition> =
            self.targets.iter().flat_map(|target| target.apps.iter().cloned()).collect();
        distinct(&apps)
    }

    /// The targets for a request.
    pub(crate) fn into_targets(self) -> Vec<StartTarget> {
        self.targets
    }

    pub(super) fn into_parts(self) -> (Vec<StartTarget>, Asides) {
        (self.targets, self.asides)
    }
}

impl Asides {
    /// Prints the warnings of targets that were read as definitions.
    pub(super) fn tell(&self, meanings: &[TargetMeaning]) {
        for (aside, meaning) in self.0.iter().zip(meanings) {
            if meaning.reading == Reading::Definition {
                aside.warnings.iter().for_each(|warning| output::warn(warning));
            }
        }
    }

    /// The failure of a request; that of a target with all its causes.
    pub(super) fn explain(self, error: ClientError, client: &Client) -> Failure {
        let ClientError::Refused { reply } = &error else { return error.into() };
        let own = self
            .0
            .into_iter()
            .filter_map(|aside| aside.failure)
            .find(|own| ErrorReply::from(fault(own)) == *reply);
        own.unwrap_or_else(|| connection::refused(error, client))
    }
}

/// A failure as a part of the request.
fn fault(failure: &Failure) -> StartFault {
    let see = match &failure.see {
        See::Command => None,
        See::At(address) => Some(address.clone()),
    };
    StartFault { error: format!("{:#}", failure.error), hint: failure.hint.clone(), see }
}

/// Whether a text is a file or a program in PATH.
fn can_be_started(target: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).any(|folder| folder.join(OsStr::new(target)).is_file());
    Path::new(target).is_file() || in_path
}
