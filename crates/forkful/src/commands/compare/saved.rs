//! `forkful compare a.json b.json`: compares two saved reports.

use std::path::Path;

use forkful_lab::reports::{self, Context};
use forkful_os::behalf::read_whole;
use forkful_os::wall_clock::now_ms;

use super::CompareArgs;
use crate::commands::lab;
use crate::exit::{Exit, Failure};
use crate::masked::masked;

/// Larger files are not read.
const BYTES_MAX: u64 = 256 << 20;

/// The texts of both files, if one of them is a report; configurations can be JSON too.
pub(super) fn reports_of(args: &CompareArgs) -> Result<Option<[String; 2]>, Failure> {
    let [a, b] = args.targets.as_slice() else { return Ok(None) };
    let is_json = |path: &String| Path::new(path).extension().is_some_and(|extension| extension == "json");
    if !(is_json(a) && is_json(b)) {
        return Ok(None);
    }
    let texts = [read(a)?, read(b)?];
    Ok(texts.iter().any(|text| reports::looks_like_report(text)).then_some(texts))
}

fn read(path: &str) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| {
        let error = anyhow::Error::new(error).context(format!("cannot read {path}"));
        Failure::caused(Exit::WrongUse, error)
    };
    let absolute = std::path::absolute(path).map_err(wrong)?;
    let bytes = read_whole(&absolute, BYTES_MAX).map_err(wrong)?;
    String::from_utf8(bytes).map_err(|_| wrong(std::io::Error::other("it is not UTF-8 text")))
}

pub(super) fn compare(args: &CompareArgs, texts: &[String; 2]) -> Result<Exit, Failure> {
    let words = std::iter::once("forkful".to_owned()).chain(masked(std::env::args().skip(1)));
    let context = Context {
        forkful: crate::connection::VERSION.to_owned(),
        created_at_ms: now_ms(),
        command: shell_words::join(words),
    };
    let files =
        [(args.targets[0].as_str(), texts[0].as_str()), (args.targets[1].as_str(), texts[1].as_str())];
    let document = reports::compare(files, &context).map_err(|error| {
        Failure::caused(Exit::WrongUse, error.into())
            .hint("`forkful bench --json URL > a.json` saves a report; so does `forkful compare --json`")
    })?;
    let text = if args.markdown { reports::markdown(&document) } else { reports::text(&document) };
    lab::show(&document, &text, &args.lab)?;
    Ok(super::git::exit(&document.gate))
}
