//! The requested output files.

use std::path::{Path, PathBuf};

use forkful_load::report::{self, Findings};

use super::args::BenchOutputArgs;
use crate::commands::lab;
use crate::exit::{Exit, Failure};
use crate::output;

/// Checks before the load starts whether the files can be written, and whether stdout is used at most once.
pub(super) fn check(out: &BenchOutputArgs) -> Result<(), Failure> {
    let promised = [out.json, is_stdout(out.csv.as_ref()), is_stdout(out.hdr.as_ref())]
        .iter()
        .filter(|yes| **yes)
        .count();
    if promised > 1 {
        return Err(Failure::new(Exit::WrongUse, "only one of --json, --csv - and --hdr - can have stdout"));
    }
    let tables = [&out.csv, &out.hdr].into_iter().flatten().filter(|path| path.as_os_str() != "-");
    tables.map(PathBuf::as_path).try_for_each(lab::check_file)?;
    lab::check_page(out.html.as_deref())
}

fn is_stdout(path: Option<&PathBuf>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

/// Whether a file replaces the report on stdout.
pub(super) fn take_stdout(out: &BenchOutputArgs) -> bool {
    is_stdout(out.csv.as_ref()) || is_stdout(out.hdr.as_ref())
}

/// Writes the files.
pub(super) fn write(out: &BenchOutputArgs, findings: &Findings) -> Result<(), Failure> {
    if let Some(path) = &out.csv {
        put(path, &report::csv(findings.report))?;
    }
    if let Some(path) = &out.hdr {
        put(path, &report::hdr(&findings.report.response))?;
    }
    if let Some(path) = &out.html {
        lab::write_page(path, &report::Page::of(findings))?;
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return output::print(text);
    }
    fs_err::write(path, text).map_err(|error| Failure::caused(Exit::Failed, error.into()))
}
