//! No text makes a parser panic, hang or overflow the stack, and every parsed configuration can be resolved
//! or refused.

use std::path::Path;

use crate::common::{Place, resolve_all};
use forkful_config::{Format, parse};
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Toml];

/// Parts of configurations, so that random texts get past the first character.
const PIECES: &[&str] = &[
    "apps",
    "script",
    "env",
    "instances",
    "env_x",
    "name",
    "args",
    "{",
    "}",
    "[",
    "]",
    "[[apps]]",
    ":",
    ": ",
    "=",
    ",",
    "\n",
    "\n  ",
    "- ",
    "\"",
    "'",
    "a.js",
    "max",
    "-1",
    "0.5",
    "1e999",
    "0x1",
    "null",
    "true",
    "//",
    "#",
    "/*",
    "*/",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "|\n ",
    ">",
    "%",
    "---\n",
    "\\u0000",
    "\\ud800",
    "\t",
    "\u{feff}",
    "ä",
    "\u{1f980}",
    ".nan",
    "1979-05-27T07:32:00Z",
    "\"\"\"",
    "''",
];

fn try_all(text: &str) -> Result<(), TestCaseError> {
    let place = Place::new();
    for format in FORMATS {
        match parse(text, format, Path::new("f.config")) {
            Ok(file) => {
                prop_assert!(!file.apps.is_empty());
                if let Err(error) = resolve_all(&file.apps, &place.context()) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_characters(text in "\\PC{0,200}") {
        try_all(&text)?;
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        try_all(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_pieces(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..40)) {
        try_all(&pieces.concat())?;
    }
}

#[test]
fn deep_nesting_is_refused() {
    for format in FORMATS {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("- ", "")] {
            let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
            assert!(parse(&text, format, Path::new("f")).is_err(), "{format:?} {open}");
        }
        let text = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&text, format, Path::new("f")).is_err(), "{format:?}");
    }
}
