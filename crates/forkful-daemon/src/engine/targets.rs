//! Resolves the clients' targets: a name, an id, a pattern, a script or `all`.

use forkful_api::types::{ActionRequest, ErrorCode, ErrorReply};
use forkful_core::pages::Page;
use forkful_core::request::{Selection, select};
use forkful_core::targets::{Target, TargetFault, as_typed};
use forkful_core::words::shell_word;
use regex::Regex;

use super::app::AppId;
use super::apps::Apps;
use super::commands::refuse;
use super::persistence::Persistence;
use crate::store::Carried;

/// The existing apps, and the entries that are only saved because they cannot be started.
#[derive(Clone, Copy)]
pub(super) struct Roster<'a> {
    pub(super) apps: &'a Apps,
    pub(super) carried: &'a [Carried],
}

impl<'a> Roster<'a> {
    pub(super) fn of(apps: &'a Apps, persistence: Option<&'a Persistence>) -> Self {
        Self { apps, carried: persistence.map_or(&[], |persistence| &persistence.carried) }
    }

    pub(super) fn find(self, name: &str) -> Option<AppId> {
        self.apps.find(name)
    }

    /// An entry with this name that is saved but cannot be started.
    pub(super) fn carried(self, name: &str) -> Option<&'a Carried> {
        self.carried.iter().find(|carried| carried.name == name)
    }

    /// Resolves targets; each must match something.
    pub(super) fn select(self, targets: &[String]) -> Result<Selection, ErrorReply> {
        let mut selection = Selection::new();
        if targets.is_empty() {
            let hint = Page::Targets.hint("name an app, an id, or `all`");
            return Err(refuse(ErrorCode::BadRequest, "no target", Some(hint)));
        }
        for text in targets {
            let meant = self.meant(text)?;
            if meant.is_empty() {
                return Err(self.no_such(text));
            }
            for (id, slots) in meant {
                let all: &mut Vec<u16> = selection.entry(id).or_default();
                all.extend(slots);
                all.sort_unstable();
                all.dedup();
            }
        }
        Ok(selection)
    }

    /// Adds those optional targets of a request that match something, or all if no target does, which is then refused. Returns a
    /// sentence for each that is left out.
    pub(super) fn take_optional(self, request: &mut ActionRequest) -> Vec<String> {
        let is_there = |text: &String| {
            let is_carried = || self.carried(as_typed(text)).is_some();
            // A target that is no target is refused later.
            self.meant(text).map_or(true, |meant| !meant.is_empty() || is_carried())
        };
        let (there, missing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut request.optional_targets).into_iter().partition(is_there);
        request.targets.extend(there);
        if request.targets.is_empty() {
            request.targets = missing;
            return Vec::new();
        }
        missing.iter().map(|text| self.no_such(text).error).collect()
    }

    /// Resolves one target.
    pub(super) fn meant(self, text: &str) -> Result<Selection, ErrorReply> {
        let target = Target::parse(text).map_err(|fault| match fault {
            TargetFault::EmptyPattern(_) => bad_pattern(&fault.to_string()),
            _ => refuse(ErrorCode::NoSuchTarget, &fault.to_string(), None),
        })?;
        let pattern = match &target {
            Target::Pattern(pattern) => Some(compiled(pattern)?),
            _ => None,
        };
        let is_match = |name: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(name));
        Ok(select(self.apps, &target, is_match))
    }

    pub(super) fn no_such(self, text: &str) -> ErrorReply {
        let names: Vec<String> = self.apps.values().map(|entry| format!("`{}`", entry.spec().name)).collect();
        let hint = if names.is_empty() {
            "no app is running; `forkful start app.js` starts one".to_owned()
        } else {
            format!("there is {}; `forkful list` shows them", names.join(", "))
        };
        let target = Target::parse(text);
        let name = target.as_ref().ok().and_then(Target::name).unwrap_or(text);
        if let Some(carried) = self.carried(name) {
            let error = format!("`{name}` is saved, but does not run: {}", carried.fault);
            let hint = Page::Saved.hint(format!("`forkful delete {}` forgets it", shell_word(name)));
            return refuse(ErrorCode::NoSuchTarget, &error, Some(hint));
        }
        let error = match &target {
            Ok(Target::All) => "there is no app".to_owned(),
            Ok(Target::Pattern(_)) => format!("no app has a name that {text} matches"),
            Ok(Target::Script(path)) => format!("no app runs {path}"),
            Ok(Target::NameOrScript { folder, name }) => format!("no app runs {folder}/{name}"),
            Ok(Target::Id(_) | Target::Name(_)) | Err(_) => format!("no app or worker `{text}`"),
        };
        refuse(ErrorCode::NoSuchTarget, &error, Some(Page::Targets.hint(hint)))
    }
}

/// Matching takes time proportional to the text, whatever the pattern; the library limits the pattern's size.
fn compiled(pattern: &str) -> Result<Regex, ErrorReply> {
    Regex::new(pattern).map_err(|fault| {
        // The library shows the location over several lines; its last line has the error.
        let told = fault.to_string();
        let what = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
        bad_pattern(&format!("/{pattern}/ is no regular expression: {what}"))
    })
}

fn bad_pattern(error: &str) -> ErrorReply {
    let hint = Page::Targets.hint("a target between slashes is a pattern of names, as in '/^api-/'");
    refuse(ErrorCode::BadRequest, error, Some(hint))
}
