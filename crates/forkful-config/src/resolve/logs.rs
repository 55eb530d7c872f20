//! Where output goes, and how it looks there.

use std::path::{Path, PathBuf};

use forkful_core::logs::LogSpec;
use forkful_core::spec::{AppName, Mode};

use super::{Context, expand_home, tidy};
use crate::options::{AppOptions, FlagOrPath};

/// What the options say of output.
pub(super) fn logs(
    options: &AppOptions,
    name: &AppName,
    mode: Mode,
    cwd: &Path,
    context: &Context,
) -> LogSpec {
    let file = |key: &str, given: Option<&Path>| log_file(options, key, given, cwd, context);
    let combined_file = match &options.log_file {
        None | Some(FlagOrPath::Flag(false)) => None,
        Some(FlagOrPath::Flag(true)) => {
            Some(context.logs_folder.join(format!("{}.log", super::file_name_of(name.as_str()))))
        }
        Some(FlagOrPath::Path(path)) => file("log_file", Some(path)),
    };
    LogSpec {
        out_file: file("out_file", options.out_file.as_deref()),
        error_file: file("error_file", options.error_file.as_deref()),
        merge: options.merge_logs.unwrap_or(mode == Mode::Fork && options.instances.is_none()),
        time: options.time.unwrap_or_default(),
        date_format: options.log_date_format.clone().flatten(),
        combined_file,
        line_format: options.log_type.unwrap_or_default(),
        disabled: options.disable_logs.unwrap_or_default(),
        ansi: options.log_ansi.unwrap_or_default(),
        rotation: options.log_rotate.clone().unwrap_or_else(|| Some(context.log_rotation.clone())),
    }
}

fn log_file(
    options: &AppOptions,
    key: &str,
    given: Option<&Path>,
    cwd: &Path,
    context: &Context,
) -> Option<PathBuf> {
    let given = given?;
    // PM2's word for no file.
    if given == Path::new("NULL") {
        return Some(PathBuf::from("/dev/null"));
    }
    let base = if options.is_from_file(key) { cwd } else { &context.caller_cwd };
    Some(tidy(&base.join(expand_home(given, context))))
}
