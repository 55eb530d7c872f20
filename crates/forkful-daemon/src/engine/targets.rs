//! What clients mean by a name, an id or `all`.

use std::collections::BTreeMap;

use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::targets::Target;

use super::Engine;
use super::app::AppId;
use super::commands::refuse;

/// What a list of targets came to: apps, each with the slots that are meant.
pub(super) type Selection = BTreeMap<AppId, Vec<u16>>;

impl Engine {
    pub(crate) fn find(&self, name: &str) -> Option<AppId> {
        self.apps.iter().find(|(_, entry)| entry.spec.name.as_str() == name).map(|(id, _)| *id)
    }

    /// What targets mean; each must mean something.
    pub(crate) fn select(&self, targets: &[String]) -> Result<Selection, ErrorReply> {
        let mut selection = Selection::new();
        if targets.is_empty() {
            let hint = "name an app, an id, or `all`".to_owned();
            return Err(refuse(ErrorCode::BadRequest, "no target", Some(hint)));
        }
        for text in targets {
            let target = Target::parse(text)
                .map_err(|fault| refuse(ErrorCode::NoSuchTarget, &fault.to_string(), None))?;
            let before = selection.len();
            let mut found = false;
            for (id, entry) in &self.apps {
                let slots: Vec<u16> = match &target {
                    Target::All => entry.places.keys().copied().collect(),
                    Target::Name(name) if *name == entry.spec.name => entry.places.keys().copied().collect(),
                    // A group's name means all its apps, unless an app has that name.
                    Target::Name(name)
                        if name.as_str() == entry.spec.namespace.as_str()
                            && self.find(name.as_str()).is_none() =>
                    {
                        entry.places.keys().copied().collect()
                    }
                    Target::Name(_) => continue,
                    Target::Id(pm_id) => entry
                        .places
                        .iter()
                        .filter(|(_, p)| p.pm_id == *pm_id)
                        .map(|(slot, _)| *slot)
                        .collect(),
                };
                if !slots.is_empty() {
                    found = true;
                    let all = selection.entry(*id).or_default();
                    all.extend(slots);
                    all.sort_unstable();
                    all.dedup();
                }
            }
            if !found && before == selection.len() {
                return Err(self.no_such(text));
            }
        }
        Ok(selection)
    }

    pub(super) fn no_such(&self, text: &str) -> ErrorReply {
        let names: Vec<String> = self.apps.values().map(|entry| format!("`{}`", entry.spec.name)).collect();
        let hint = if names.is_empty() {
            "no app is running; `forkful start app.js` starts one".to_owned()
        } else {
            format!("there is {}; `forkful list` shows them", names.join(", "))
        };
        let error =
            if text == "all" { "there is no app".to_owned() } else { format!("no app or worker `{text}`") };
        refuse(ErrorCode::NoSuchTarget, &error, Some(hint))
    }
}
