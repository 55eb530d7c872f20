//! `forkful start`: what its targets mean for the apps that exist.
//!
//! As in PM2, an existing app that is named is started, or restarted if it runs. A number, `all`, and a word without a
//! slash and an extension is first a name and then a file; everything else is first a file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::named;
use crate::spec::AppSpec;
use crate::targets::Target;
use crate::words::{count, shell_word};

named! {
    /// What to do with an app that is defined and already runs. One that exists and does not run starts again.
    #[derive(Default)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum IfRunning {
        /// Leave it as it is; its result is an error.
        #[default]
        Refuse = "refuse",
        /// Restart it with the new definition.
        Restart = "restart",
        /// Start a second app under another name.
        StartAnother = "start_another",
        /// Leave it as it is, also if it does not run.
        LeaveExisting = "leave_existing",
        /// Leave it as it is. If it has the same program and does not run, it starts again; with another program, its result is
        /// an error.
        LeaveRunning = "leave_running",
    }
}

named! {
    /// What a target turned out to be.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Reading {
        /// It names apps that exist.
        Existing = "existing",
        /// It defines apps.
        Definition = "definition",
    }
}

/// A target as a user wrote it, and what the client knows of it.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    pub text: &'a str,
    /// A file of this name exists.
    pub is_there: bool,
    /// It is a file, or a program in PATH.
    pub can_be_started: bool,
    /// The name that the user gives to what is started, so that a target that can be started does not name an app:
    /// `start npm --name web -- start` works although an app `npm` exists.
    pub new_name: Option<&'a str>,
}

impl Written<'_> {
    /// Whether the text names apps or something to start; `is_known` says that it would name apps. `None` if it can only
    /// name apps, and names none.
    pub fn reading(&self, is_known: bool) -> Option<Reading> {
        let target = Target::parse(self.text);
        let can_only_name = match target {
            Ok(Target::All | Target::Pattern(_)) => true,
            Ok(Target::Id(_)) => !self.is_there,
            Ok(Target::Script(_) | Target::NameOrScript { .. } | Target::Name(_)) | Err(_) => false,
        };
        let is_path = matches!(target, Ok(Target::Script(_) | Target::NameOrScript { .. }) | Err(_));
        match (can_only_name, is_known && !is_path) {
            (true, true) => Some(Reading::Existing),
            (true, false) => None,
            (false, true) if !self.is_file_first() => Some(Reading::Existing),
            (false, _) => Some(Reading::Definition),
        }
    }

    fn is_file_first(&self) -> bool {
        let looks_like_file = self.text.contains('/') || Path::new(self.text).extension().is_some();
        let is_renamed = self.new_name.is_some_and(|name| name != self.text);
        looks_like_file && self.is_there || is_renamed && self.can_be_started
    }
}

/// What tells two apps apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    pub name: &'a str,
    pub program: &'a str,
    pub script: Option<&'a str>,
}

impl<'a> From<&'a AppSpec> for Identity<'a> {
    fn from(spec: &'a AppSpec) -> Self {
        let program = spec.launch.program.to_str().unwrap_or_default();
        Self { name: spec.name.as_str(), program, script: spec.launch.script.as_deref() }
    }
}

/// What becomes of an app that is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is made, under this name.
    New(String),
    /// It exists, and starts again with the new definition.
    Again { is_running: bool },
    /// It stays as it is, as the user wants.
    Left,
    /// It stays as it is, which is an error.
    Refused(Conflict),
}

/// Why a running app is not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// It runs already.
    Runs { name: String, workers: usize },
    /// The name belongs to an app with this script.
    OtherApp { name: String, script: String, is_running: bool },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { workers, .. } => write!(f, "already running, with {}", count(*workers, "worker")),
            Self::OtherApp { script, is_running, .. } => {
                let state = if *is_running { ", which is running" } else { "" };
                write!(f, "the name belongs to another app, {script}{state}")
            }
        }
    }
}

impl Conflict {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Runs { name, .. } => format!(
                "`forkful reload {}` loads new code without losing a request; `--force` starts another copy",
                shell_word(name)
            ),
            Self::OtherApp { name, .. } => format!(
                "`--name` gives this one another name; `forkful delete {}` removes the other one",
                shell_word(name)
            ),
        }
    }
}

/// Two definitions of a request have this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTwice(pub String);

impl fmt::Display for NamedTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two apps would have the name `{}`", self.0)
    }
}

impl std::error::Error for NamedTwice {}

/// What becomes of the wanted apps, one step for each. `existing` yields the app of a name and how many of its workers run.
pub fn steps<'a>(
    wanted: &[(Identity<'_>, IfRunning)],
    existing: impl Fn(&str) -> Option<(Identity<'a>, usize)>,
) -> Result<Vec<Step>, NamedTwice> {
    let mut names = BTreeSet::new();
    if let Some((twice, _)) = wanted.iter().find(|(app, _)| !names.insert(app.name)) {
        return Err(NamedTwice(twice.name.to_owned()));
    }
    let mut taken: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
    let step = |(app, if_running): &(Identity<'_>, IfRunning)| match (existing(app.name), if_running) {
        (None, _) => Step::New(app.name.to_owned()),
        (Some(_), IfRunning::LeaveExisting) => Step::Left,
        (Some((other, workers)), IfRunning::LeaveRunning) if !is_same(app, &other) => {
            Step::Refused(conflict(app, &other, workers))
        }
        (Some((_, 1..)), IfRunning::LeaveRunning) => Step::Left,
        (Some((_, 0)), _) => Step::Again { is_running: false },
        (Some(_), IfRunning::Restart) => Step::Again { is_running: true },
        (Some((other, workers)), IfRunning::Refuse) => Step::Refused(conflict(app, &other, workers)),
        (Some(_), IfRunning::StartAnother) => {
            let name = free_name(app.name, |name| taken.contains(name) || existing(name).is_some());
            taken.insert(name.clone());
            Step::New(name)
        }
    };
    Ok(wanted.iter().map(step).collect())
}

fn conflict(wanted: &Identity<'_>, existing: &Identity<'_>, workers: usize) -> Conflict {
    if is_same(wanted, existing) {
        return Conflict::Runs { name: existing.name.to_owned(), workers };
    }
    let script = existing.script.unwrap_or(existing.program).to_owned();
    Conflict::OtherApp { name: existing.name.to_owned(), script, is_running: workers > 0 }
}

/// Whether two definitions run the same.
fn is_same(one: &Identity<'_>, other: &Identity<'_>) -> bool {
    (one.script, one.program) == (other.script, other.program)
}

/// The first free name: `api-2`, `api-3`, ….
fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    (2..u64::MAX)
        .map(|number| format!("{name}-{number}"))
        .find(|candidate| !is_taken(candidate))
        .expect("there are more names than apps")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Written<'_> = Written { text: "", is_there: false, can_be_started: false, new_name: None };

    #[test]
    fn a_word_is_first_a_name_and_a_path_is_first_a_file() {
        let file = |text| Written { text, is_there: true, can_be_started: true, ..NOTHING };
        let absent = |text| Written { text, ..NOTHING };
        let (existing, definition) = (Some(Reading::Existing), Some(Reading::Definition));
        // With an app of that name, and without.
        let table = [
            (file("mail"), existing, definition),
            (absent("mail"), existing, definition),
            (file("worker.js"), definition, definition),
            (absent("worker.js"), existing, definition),
            (file("@scope/api"), definition, definition),
            (absent("@scope/api"), existing, definition),
            (file("./app.js"), definition, definition),
            (absent("./app.js"), definition, definition),
            (absent("/srv/app.js"), definition, definition),
            (file("7"), existing, definition),
            (absent("7"), existing, None),
            (absent("99999999999"), definition, definition),
            (file("all"), existing, None),
            (absent("/^api/"), existing, None),
        ];
        for (written, known, unknown) in table {
            assert_eq!((written.reading(true), written.reading(false)), (known, unknown), "{written:?}");
        }
    }

    #[test]
    fn another_name_makes_another_app_of_what_can_be_started() {
        let npm = Written { text: "npm", can_be_started: true, ..NOTHING };
        assert_eq!(npm.reading(true), Some(Reading::Existing));
        assert_eq!(Written { new_name: Some("npm"), ..npm }.reading(true), Some(Reading::Existing));
        assert_eq!(Written { new_name: Some("web"), ..npm }.reading(true), Some(Reading::Definition));
        let absent = Written { new_name: Some("web"), can_be_started: false, ..npm };
        assert_eq!(absent.reading(true), Some(Reading::Existing), "it is renamed");
    }

    fn app<'a>(name: &'a str, script: &'a str) -> Identity<'a> {
        Identity { name, program: "/usr/bin/node", script: Some(script) }
    }

    fn other(name: &str, is_running: bool) -> Conflict {
        Conflict::OtherApp { name: name.to_owned(), script: "/srv/api.js".to_owned(), is_running }
    }

    /// The steps where `api` runs with two workers and `api-2` rests.
    fn steps_of(wanted: &[(Identity<'_>, IfRunning)]) -> Result<Vec<Step>, NamedTwice> {
        steps(wanted, |name| match name {
            "api" => Some((app("api", "/srv/api.js"), 2)),
            "api-2" => Some((app("api-2", "/srv/api.js"), 0)),
            _ => None,
        })
    }

    #[test]
    fn what_becomes_of_an_app_depends_on_whether_it_runs() {
        let api = app("api", "/srv/api.js");
        let runs = Conflict::Runs { name: "api".to_owned(), workers: 2 };
        let table = [
            (app("new", "/srv/new.js"), IfRunning::Refuse, Step::New("new".to_owned())),
            (app("api-2", "/srv/x.js"), IfRunning::Refuse, Step::Again { is_running: false }),
            (app("api-2", "/srv/x.js"), IfRunning::StartAnother, Step::Again { is_running: false }),
            (api, IfRunning::Restart, Step::Again { is_running: true }),
            (api, IfRunning::StartAnother, Step::New("api-3".to_owned())),
            (api, IfRunning::Refuse, Step::Refused(runs)),
            (api, IfRunning::LeaveExisting, Step::Left),
            (app("api-2", "/srv/x.js"), IfRunning::LeaveExisting, Step::Left),
            (app("new", "/srv/new.js"), IfRunning::LeaveExisting, Step::New("new".to_owned())),
            (app("api", "/srv/other.js"), IfRunning::Refuse, Step::Refused(other("api", true))),
            (api, IfRunning::LeaveRunning, Step::Left),
            (app("api-2", "/srv/api.js"), IfRunning::LeaveRunning, Step::Again { is_running: false }),
            (app("api-2", "/srv/x.js"), IfRunning::LeaveRunning, Step::Refused(other("api-2", false))),
            (app("new", "/srv/new.js"), IfRunning::LeaveRunning, Step::New("new".to_owned())),
        ];
        for (wanted, if_running, step) in table {
            assert_eq!(steps_of(&[(wanted, if_running)]), Ok(vec![step]), "{wanted:?} {if_running:?}");
        }
    }

    #[test]
    fn another_name_is_no_name_of_the_same_request() {
        let wanted = [
            (app("api", "/srv/api.js"), IfRunning::StartAnother),
            (app("api-3", "/srv/api.js"), IfRunning::Refuse),
        ];
        let steps = steps_of(&wanted);
        assert_eq!(steps, Ok(vec![Step::New("api-4".to_owned()), Step::New("api-3".to_owned())]));
    }

    #[test]
    fn two_definitions_of_a_name_are_refused_as_a_whole() {
        let twice =
            [(app("new", "/srv/a.js"), IfRunning::Refuse), (app("new", "/srv/b.js"), IfRunning::Refuse)];
        let fault = steps_of(&twice).unwrap_err();
        assert_eq!(fault.to_string(), "two apps would have the name `new`");
    }

    #[test]
    fn a_conflict_says_what_to_do() {
        let runs = Conflict::Runs { name: "api".to_owned(), workers: 1 };
        assert_eq!(runs.to_string(), "already running, with 1 worker");
        assert!(runs.hint().starts_with("`forkful reload api`"), "{}", runs.hint());
        let other = other("api", true);
        assert_eq!(other.to_string(), "the name belongs to another app, /srv/api.js, which is running");
        assert!(
            other.hint().contains("`--name`") && other.hint().contains("`forkful delete api`"),
            "{}",
            other.hint()
        );
    }

    #[test]
    fn a_name_in_a_command_is_quoted_for_the_shell() {
        let hint = Conflict::Runs { name: "my api".to_owned(), workers: 1 }.hint();
        assert!(hint.starts_with("`forkful reload 'my api'` loads"), "{hint}");
    }
}
