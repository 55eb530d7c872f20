//! Apps that need each other: one that depends on others is started when they are ready, and they are
//! stopped when it is gone.

use std::collections::BTreeMap;

use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::spec::AppSpec;
use forkful_core::upkeep::order;

use super::app::AppId;
use super::apps::Apps;
use super::commands::refuse;

impl Apps {
    /// Whether apps can be started or get another definition: the apps that they depend on exist or are among them, and
    /// none waits for itself.
    pub(crate) fn check_dependencies<'a>(
        &self,
        specs: impl Iterator<Item = &'a AppSpec> + Clone,
    ) -> Result<(), ErrorReply> {
        let old = self.values().map(|entry| order::needs_of(entry.spec()));
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
            self.get(app).map(|entry| order::needs_of(entry.spec())).unwrap_or_default()
        });
        selection
    }
}
