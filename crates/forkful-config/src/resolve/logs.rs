//! Where output goes, and how it looks there.

use std::path::{Path, PathBuf};

use forkful_core::logs::LogSpec;
use forkful_core::paths::file_name_of;
use forkful_core::spec::{AppName, Mode};

use super::{Context, expand_home, tidy};
use crate::options::AppOptions;

/// Adds what depends on where the app and its logs are.
pub(super) fn complete(
    logs: &mut LogSpec,
    options: &AppOptions,
    name: &AppName,
    mode: Mode,
    cwd: &Path,
    context: &Context,
) {
    logs.out_file = log_file(options, "out_file", cwd, context);
    logs.error_file = log_file(options, "error_file", cwd, context);
    logs.combined_file = match options.flag("log_file") {
        Some(false) => None,
        Some(true) => Some(context.logs_folder.join(format!("{}.log", file_name_of(name.as_str())))),
        None => log_file(options, "log_file", cwd, context),
    };
    let is_single = mode == Mode::Fork && options.get("instances").is_none();
    logs.merge = options.flag("merge_logs").unwrap_or(is_single);
    if options.get("log_rotate").is_none() {
        logs.rotation = Some(context.log_rotation.clone());
    }
}

fn log_file(options: &AppOptions, key: &str, cwd: &Path, context: &Context) -> Option<PathBuf> {
    let given = options.path(key)?;
    // PM2's word for no file.
    if given == Path::new("NULL") {
        return Some(PathBuf::from("/dev/null"));
    }
    let base = if options.is_from_file(key) { cwd } else { &context.caller_cwd };
    Some(tidy(&base.join(expand_home(given, context))))
}
