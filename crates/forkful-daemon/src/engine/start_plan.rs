//! What a start means: how each target is read, which apps are new, and which start again. Nothing is done before all of
//! it is clear; the rules are in [`forkful_core::start`].

use forkful_api::types::{
    AppDefinition, AppOutcome, ErrorCode, ErrorReply, MeantApp, StartRequest, StartStep, StartTarget,
    TargetMeaning,
};
use forkful_core::pages::Page;
use forkful_core::request::{Selection, as_started};
use forkful_core::start::{Conflict, IfRunning, Reading, Step, Written, steps};
use forkful_core::targets::{Target, TargetFault};
use serde_json::Value;

use super::app::App;
use super::commands::refuse;
use super::resolve::{Known, Resolved};
use super::targets::Roster;

/// What a start is about.
pub(super) struct StartPlan {
    pub(super) resolved: Resolved,
    /// One for each target.
    pub(super) meanings: Vec<TargetMeaning>,
    /// Running apps that stay as they are.
    pub(super) refused: Vec<AppOutcome>,
}

/// Targets, as they were read.
#[derive(Default)]
struct Read {
    /// Those that name existing apps.
    texts: Vec<String>,
    /// The apps that the others define.
    wanted: Vec<(AppDefinition, IfRunning)>,
    /// What each target means; the steps of defined apps come later.
    meanings: Vec<TargetMeaning>,
}

impl Roster<'_> {
    pub(super) fn plan_start(self, request: StartRequest) -> Result<StartPlan, ErrorReply> {
        if request.targets.is_empty() {
            let resolved = self.resolve_start(request.apps, (request.stopped, request.update_env))?;
            return Ok(StartPlan { resolved, meanings: Vec::new(), refused: Vec::new() });
        }
        let change = request.change.filter(|change| !change.is_empty());
        let named = change.as_ref().and_then(|change| change.definition.get("name"));
        let Read { texts, wanted, mut meanings } =
            self.read(request.targets, named.and_then(Value::as_str))?;
        let apps: Vec<_> = wanted.iter().map(|(app, if_running)| (app.identity(), *if_running)).collect();
        let steps = steps(&apps, |name| as_started(self.apps, name)).map_err(|twice| {
            let hint = Page::AppExists.hint("start them one by one, each with its own `--name`");
            refuse(ErrorCode::BadRequest, &twice.to_string(), Some(hint))
        })?;
        note_steps(&mut meanings, &steps);
        let (mut known, mut new, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for ((app, _), step) in wanted.into_iter().zip(steps) {
            match step {
                Step::New(name) => new.push(AppDefinition { name, ..app }),
                Step::Again { .. } => known.push(app),
                Step::Left => {}
                Step::Refused(conflict) => refused.push(outcome(app.name, &conflict)),
            }
        }
        let changes = change.into_iter().filter(|_| !texts.is_empty()).collect();
        let resolved = if texts.is_empty() && known.is_empty() && new.is_empty() {
            Resolved::default()
        } else {
            let known = Known { definitions: known, update_env: request.update_env };
            self.resolved(texts, known, changes, new)?
        };
        Ok(StartPlan { resolved, meanings, refused })
    }

    fn read(self, targets: Vec<StartTarget>, new_name: Option<&str>) -> Result<Read, ErrorReply> {
        let mut read = Read::default();
        for target in targets {
            let StartTarget { text, is_name, is_there, can_be_started, apps, if_running, fault } = target;
            let meant = match text.as_deref() {
                Some(text) if !is_name || self.find(text).is_some() => self.named_by(text)?,
                _ => Selection::new(),
            };
            let reading = text.as_deref().map_or(Some(Reading::Definition), |text| {
                Written { text, is_there, can_be_started, new_name }.reading(!meant.is_empty())
            });
            match (reading, text) {
                (Some(Reading::Existing), Some(text)) => {
                    read.meanings.push(self.existing(&meant));
                    read.texts.push(text);
                }
                (Some(Reading::Definition), _) if !apps.is_empty() => {
                    // The steps are known when all definitions are.
                    let named =
                        |app: &AppDefinition| MeantApp { name: app.name.clone(), step: StartStep::New };
                    let apps_meant = apps.iter().map(named).collect();
                    read.meanings.push(TargetMeaning { reading: Reading::Definition, apps: apps_meant });
                    read.wanted.extend(apps.into_iter().map(|app| (app, if_running)));
                }
                (reading, text) => {
                    let no_such = || self.no_such(text.as_deref().unwrap_or_default());
                    // A text that can only be a name has no fault as a file.
                    let fault = fault.filter(|_| reading.is_some());
                    return Err(fault.map_or_else(no_such, ErrorReply::from));
                }
            }
        }
        Ok(read)
    }

    /// What a text names; nothing where it cannot be the name of an app.
    fn named_by(self, text: &str) -> Result<Selection, ErrorReply> {
        match Target::parse(text) {
            Err(TargetFault::NoName { .. } | TargetFault::IdTooLarge(_)) => Ok(Selection::new()),
            Err(TargetFault::EmptyPattern(_)) | Ok(_) => self.meant(text),
        }
    }

    /// A target that names existing apps.
    fn existing(self, meant: &Selection) -> TargetMeaning {
        let app = |(id, slots): (_, &Vec<u16>)| {
            let entry = self.apps.get(id)?;
            let rests = slots.iter().all(|slot| rests(entry, *slot));
            let step = if rests { StartStep::Start } else { StartStep::Restart };
            Some(MeantApp { name: entry.spec().name.to_string(), step })
        };
        TargetMeaning { reading: Reading::Existing, apps: meant.iter().filter_map(app).collect() }
    }
}

fn rests(entry: &App, slot: u16) -> bool {
    entry.supervisor.slot(slot).is_none_or(|record| record.slot.is_at_rest())
}

/// Says what becomes of the defined apps.
fn note_steps(meanings: &mut [TargetMeaning], steps: &[Step]) {
    let defined = meanings.iter_mut().filter(|meaning| meaning.reading == Reading::Definition);
    for (app, step) in defined.flat_map(|meaning| &mut meaning.apps).zip(steps) {
        app.step = match step {
            Step::New(_) => StartStep::New,
            Step::Again { is_running: true } => StartStep::Restart,
            Step::Again { is_running: false } => StartStep::Start,
            Step::Left => StartStep::Left,
            Step::Refused(_) => StartStep::Refused,
        };
        if let Step::New(name) = step {
            app.name.clone_from(name);
        }
    }
}

fn outcome(name: String, conflict: &Conflict) -> AppOutcome {
    let (error, hint) = (Some(conflict.to_string()), Some(conflict.hint()));
    AppOutcome { name, error, hint, see: Some(Page::AppExists.url()), ..AppOutcome::default() }
}
