//! Decides which targets of `start` name existing apps, and which are something to start. PM2's rule: a
//! number, `all`, and a word without a slash and an extension is first a name and then a file; everything
//! else is first a file.

use std::ffi::OsStr;
use std::path::Path;

use forkful_api::types::{AppView, WorkerView};
use forkful_core::targets::{Target, pattern_of};
use regex::Regex;

use crate::commands::targets::check_pattern;
use crate::exit::Failure;
use crate::specs::is_config;

/// Whether a target names existing apps. `new_name` is the value of `--name`: with it, a target that can be
/// started is not taken for an app of that name, so that `start npm --name web -- start` works although an
/// app `npm` exists.
pub(super) fn existing(target: &str, known: &[AppView], new_name: Option<&str>) -> Result<bool, Failure> {
    if is_config(target) {
        return Ok(false);
    }
    if pattern_of(target).is_some() {
        check_pattern(target)?;
    }
    let is_known = known.iter().any(|app| app.workers.iter().any(|worker| means(target, app, worker, known)));
    let can_be_no_file = match Target::parse(target) {
        Ok(Target::All | Target::Pattern(_)) => true,
        Ok(Target::Id(_)) => !Path::new(target).exists(),
        Ok(Target::Script(_) | Target::Name(_)) | Err(_) => false,
    };
    if can_be_no_file && !is_known {
        return Err(Failure::no_such_app(target));
    }
    if !is_known || can_be_no_file {
        return Ok(is_known);
    }
    let looks_like_file = target.contains('/') || Path::new(target).extension().is_some();
    let is_renamed = new_name.is_some_and(|name| name != target);
    Ok(!(looks_like_file && Path::new(target).exists() || is_renamed && can_be_started(target)))
}

/// Whether a target includes this worker.
pub(super) fn means(target: &str, app: &AppView, worker: &WorkerView, known: &[AppView]) -> bool {
    let definition = &app.definition;
    match Target::parse(target) {
        Ok(Target::All) => true,
        Ok(Target::Id(id)) => worker.pm_id == id,
        Ok(Target::Pattern(pattern)) => {
            Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(&definition.name))
        }
        Ok(Target::Name(name)) => {
            let is_app = known.iter().any(|app| app.definition.name == name.as_str());
            definition.name == name.as_str() || !is_app && definition.namespace == name.as_str()
        }
        Ok(Target::Script(_)) | Err(_) => false,
    }
}

/// Whether a text is a file or a program in PATH.
fn can_be_started(target: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).any(|folder| folder.join(OsStr::new(target)).is_file());
    Path::new(target).is_file() || in_path
}
