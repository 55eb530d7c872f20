//! Dependencies between apps: an app is started when its dependencies are ready, and they are stopped after
//! it.

use std::collections::{BTreeMap, BTreeSet};

use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::spec::AppSpec;
use forkful_core::upkeep::{needs, order};

use super::app::AppId;
use super::apps::Apps;
use super::commands::refuse;
use super::targets::Selection;

impl Apps {
    /// Whether dependencies allow apps to be started or changed while others are deleted.
    pub(crate) fn check_needs<'a>(
        &self,
        wanted: impl Iterator<Item = &'a AppSpec>,
        deleted: &BTreeSet<String>,
    ) -> Result<(), ErrorReply> {
        let existing = self.values().map(|entry| order::needs_of(entry.spec()));
        needs::check(existing, wanted.map(order::needs_of), deleted)
            .map_err(|fault| refuse(ErrorCode::BadRequest, &fault.to_string(), fault.hint()))
    }

    /// Whether workers may be deleted: no remaining app may depend on a completely deleted app.
    pub(crate) fn check_deletion(&self, selection: &Selection) -> Result<(), ErrorReply> {
        let whole = selection.iter().filter_map(|(app, slots)| {
            self.get(app)
                .filter(|entry| entry.places.len() == slots.len())
                .map(|entry| entry.spec().name.to_string())
        });
        self.check_needs(std::iter::empty(), &whole.collect())
    }

    /// The same apps, each after its dependencies.
    pub(crate) fn in_order(&self, selection: BTreeMap<AppId, Vec<u16>>) -> Vec<(AppId, Vec<u16>)> {
        let mut selection: Vec<_> = selection.into_iter().collect();
        order::sort_by_needs(&mut selection, |(app, _)| {
            self.get(app).map(|entry| order::needs_of(entry.spec())).unwrap_or_default()
        });
        selection
    }
}
