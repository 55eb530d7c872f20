//! Apps that need each other: one that depends on others is started when they are ready, and they are
//! stopped when it is gone.

use std::collections::BTreeMap;

use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::slot::Verb as SlotVerb;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{Event, JobId, dependents_of, waiting_for_others};
use forkful_core::upkeep::order;

use super::Engine;
use super::app::AppId;
use super::commands::refuse;

impl Engine {
    /// Whether apps can be started or get another definition: the apps that they depend on exist or are among them, and
    /// none waits for itself.
    pub(crate) fn check_dependencies<'a>(
        &self,
        specs: impl Iterator<Item = &'a AppSpec> + Clone,
    ) -> Result<(), ErrorReply> {
        let old = self.apps.values().map(|entry| order::needs_of(entry.spec()));
        let needs: BTreeMap<String, Vec<String>> = old.chain(specs.clone().map(order::needs_of)).collect();
        for spec in specs {
            if let Some(missing) = spec.depends_on.iter().find(|name| !needs.contains_key(name.as_str())) {
                let error = format!("`{}` depends on `{missing}`, and there is no such app", spec.name);
                let hint = format!("start `{missing}` first, or in the same file");
                return Err(refuse(ErrorCode::BadRequest, &error, Some(hint)));
            }
        }
        let circle = order::in_groups(&needs).err();
        circle.map_or(Ok(()), |circle| Err(refuse(ErrorCode::BadRequest, &circle.to_string(), None)))
    }

    /// The same apps, each after those that it depends on.
    pub(crate) fn in_order(&self, selection: BTreeMap<AppId, Vec<u16>>) -> Vec<(AppId, Vec<u16>)> {
        let mut selection: Vec<_> = selection.into_iter().collect();
        order::sort_by_needs(&mut selection, |(app, _)| {
            self.apps.get(app).map(|entry| order::needs_of(entry.spec())).unwrap_or_default()
        });
        selection
    }

    /// Stops or deletes slots of several apps, those that depend on others first.
    pub(crate) fn stop_in_order(&mut self, selection: Vec<(AppId, Vec<u16>)>, verb: SlotVerb, job: JobId) {
        let chosen: Vec<AppId> = selection.iter().map(|(app, _)| *app).collect();
        for (app, slots) in selection {
            self.join(job, app);
            let first = dependents_of(&self.apps, app, &chosen);
            self.supervise(app, Event::Stop { slots, verb, first, job });
        }
    }

    /// Has apps that wait for others go on, where those are as far as they should be; says whether any did.
    pub(crate) fn go_on_with_held(&mut self) -> bool {
        if !self.holds_some {
            return false;
        }
        let waiting = waiting_for_others(&self.apps);
        self.holds_some = !waiting.is_empty();
        let mut any = false;
        for app in waiting {
            self.supervise(app, Event::OthersMoved);
            any |= !self.apps.get(&app).is_some_and(|entry| entry.supervisor.waits_for_others());
        }
        any
    }
}
