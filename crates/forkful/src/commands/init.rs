//! `forkful init`: writes an initial configuration, in the format of the file's extension.

pub(super) mod entry;
mod write;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::output;
use clap::{Args, ValueEnum};
use entry::{Entry, Package};
use write::Syntax;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful init             a small forkful.config.js
  forkful init full        all options, commented
  forkful init -o forkful.config.toml    as TOML; .json, .yaml, .ts and others too")]
pub(crate) struct InitArgs {
    /// `simple` (default) or `full`.
    #[arg(value_enum)]
    pub(crate) kind: Option<InitKind>,
    /// The file, whose extension is the format; `-` is stdout. By default forkful.config.js in a terminal, else stdout.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitKind {
    Simple,
    Full,
}

const FILE_DEFAULT: &str = "forkful.config.js";

pub(super) fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let package = Package::of(Path::new(""));
    let kind = args.kind.unwrap_or(InitKind::Simple);
    let path = match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.clone()),
        None if std::io::stdout().is_terminal() => Some(PathBuf::from(FILE_DEFAULT)),
        None => None,
    };
    let Some(path) = path else {
        output::print(&write::config(Syntax::CommonJs, kind, &package.entry()))?;
        return Ok(Exit::Done);
    };
    let syntax = syntax(&path, package.is_module)?;
    if path.exists() && !args.force {
        return Err(Failure::new(Exit::WrongUse, format!("{} exists already", path.display()))
            .hint("`--force` overwrites it, `--output` names another file"));
    }
    fs_err::write(&path, write::config(syntax, kind, &package.entry()))
        .map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    let is_default = forkful_config::find_default(Path::new("")).is_some_and(|found| found == path);
    let command = if is_default { String::new() } else { format!(" {}", path.display()) };
    let Entry { script, is_script, .. } = package.entry();
    let step = if !is_script || Path::new(&script).exists() {
        format!("`forkful start{command}` starts it")
    } else {
        format!(
            "there is no {script} here: name the app's script in it, then `forkful start{command}` starts it"
        )
    };
    output::say(&format!("{} written; {step}\n", path.display()))?;
    Ok(Exit::Done)
}

/// The syntax for a file of this name. The name of a script must be recognisable as a configuration.
fn syntax(path: &Path, is_module: bool) -> Result<Syntax, Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let syntax = match extension {
        "js" if is_module => Syntax::Module,
        "js" | "cjs" => Syntax::CommonJs,
        "mjs" | "ts" | "mts" => Syntax::Module,
        "json" => Syntax::Json,
        "yaml" | "yml" => Syntax::Yaml,
        "toml" => Syntax::Toml,
        _ => {
            let error = format!("cannot tell the format of {} from its name", path.display());
            return Err(Failure::new(Exit::WrongUse, error)
                .hint("use .js, .cjs, .mjs, .ts, .mts, .json, .yaml, .yml or .toml; `-` is stdout"));
        }
    };
    if forkful_config::is_config(path) {
        return Ok(syntax);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let error = format!("`forkful start {}` would start it as a script", path.display());
    Err(Failure::new(Exit::WrongUse, error).hint(format!("name it {stem}.config.{extension}")))
}
