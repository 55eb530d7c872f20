//! Formats times with tokens of Moment.js and Day.js, which PM2's users know (`YYYY-MM-DD HH:mm:ss.SSS Z`).
//! Names are English; weeks begin on Sunday where it depends on the locale.
//!
//! The current time and the offset of local time from UTC are arguments.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use chrono::{DateTime, Datelike, Days, FixedOffset, Offset as _, TimeDelta, Timelike, Utc};

/// The longest format in bytes, which limits the prefix of each line.
pub const DATE_FORMAT_BYTES_MAX: usize = 256;

/// A checked date format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DateFormat {
    source: String,
    parts: Vec<Part>,
}

/// Why a format is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateFormatFault {
    /// It is empty.
    Empty,
    /// More than [`DATE_FORMAT_BYTES_MAX`] bytes.
    TooLong,
    /// A control character, such as the end of a line.
    Control(char),
}

impl fmt::Display for DateFormatFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a date format needs at least one character"),
            Self::TooLong => write!(f, "a date format has at most {DATE_FORMAT_BYTES_MAX} bytes"),
            Self::Control(c) => write!(f, "a date format cannot hold {c:?}"),
        }
    }
}

impl std::error::Error for DateFormatFault {}

impl fmt::Debug for DateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DateFormat({:?})", self.source)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field(Field),
}

/// The meaning of a token. The texts are chrono's `strftime` conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// The conversion's output.
    As(&'static str),
    /// The first bytes of the conversion's output.
    Start(&'static str, usize),
    /// A number as `1st`.
    Ordinal(&'static str),
    /// The conversion for the Saturday of the week: a week belongs to the year that contains its Saturday.
    OfSaturday(&'static str),
    /// The number of the week that ends on Saturday, with leading zeros to this many digits.
    Week(usize),
    WeekOrdinal,
    /// 1 to 24, with leading zeros to this many digits.
    Hour24(usize),
    /// The year with leading zeros to this many digits.
    Year(usize),
    /// A sign and six digits.
    LongYear,
    /// Milliseconds since the Unix epoch.
    Millis,
    /// The zone's name, known only for UTC.
    Zone,
}

/// Tokens that are abbreviations of others, longest first.
const SHORTHANDS: &[(&str, &str)] = &[
    ("LTS", "h:mm:ss A"),
    ("LT", "h:mm A"),
    ("LLLL", "dddd, MMMM D, YYYY h:mm A"),
    ("LLL", "MMMM D, YYYY h:mm A"),
    ("LL", "MMMM D, YYYY"),
    ("L", "MM/DD/YYYY"),
    ("llll", "ddd, MMM D, YYYY h:mm A"),
    ("lll", "MMM D, YYYY h:mm A"),
    ("ll", "MMM D, YYYY"),
    ("l", "M/D/YYYY"),
];

use Field::{As, Hour24, LongYear, Millis, OfSaturday, Ordinal, Start, Week, WeekOrdinal, Year, Zone};

/// All other tokens; among tokens with a common prefix the longest comes first.
const TOKENS: &[(&str, Field)] = &[
    ("YYYYYY", LongYear),
    ("YYYYY", Year(5)),
    ("YYYY", Year(4)),
    ("YY", As("%y")),
    ("Y", Year(1)),
    ("Qo", Ordinal("%q")),
    ("Q", As("%q")),
    ("MMMM", As("%B")),
    ("MMM", As("%b")),
    ("MM", As("%m")),
    ("Mo", Ordinal("%-m")),
    ("M", As("%-m")),
    ("DDDo", Ordinal("%-j")),
    ("DDDD", As("%j")),
    ("DDD", As("%-j")),
    ("DD", As("%d")),
    ("Do", Ordinal("%-d")),
    ("D", As("%-d")),
    ("dddd", As("%A")),
    ("ddd", As("%a")),
    ("dd", Start("%a", 2)),
    ("do", Ordinal("%w")),
    ("d", As("%w")),
    ("e", As("%w")),
    ("E", As("%u")),
    ("ww", Week(2)),
    ("wo", WeekOrdinal),
    ("w", Week(1)),
    ("WW", As("%V")),
    ("Wo", Ordinal("%-V")),
    ("W", As("%-V")),
    ("gggg", OfSaturday("%Y")),
    ("gg", OfSaturday("%y")),
    ("GGGG", As("%G")),
    ("GG", As("%g")),
    ("A", As("%p")),
    ("a", As("%P")),
    ("HH", As("%H")),
    ("H", As("%-H")),
    ("hh", As("%I")),
    ("h", As("%-I")),
    ("kk", Hour24(2)),
    ("k", Hour24(1)),
    ("mm", As("%M")),
    ("m", As("%-M")),
    ("ss", As("%S")),
    ("s", As("%-S")),
    ("SSSSSSSSS", As("%9f")),
    ("SSSSSSSS", Start("%9f", 8)),
    ("SSSSSSS", Start("%9f", 7)),
    ("SSSSSS", As("%6f")),
    ("SSSSS", Start("%9f", 5)),
    ("SSSS", Start("%9f", 4)),
    ("SSS", As("%3f")),
    ("SS", Start("%9f", 2)),
    ("S", Start("%9f", 1)),
    ("X", As("%s")),
    ("x", Millis),
    ("zz", Zone),
    ("z", Zone),
    ("ZZ", As("%z")),
    ("Z", As("%:z")),
];

impl DateFormat {
    /// Parses a format. Text that is not a token, and text in `[brackets]`, is literal.
    pub fn new(source: impl Into<String>) -> Result<Self, DateFormatFault> {
        let source = source.into();
        if source.is_empty() {
            return Err(DateFormatFault::Empty);
        }
        if source.len() > DATE_FORMAT_BYTES_MAX {
            return Err(DateFormatFault::TooLong);
        }
        if let Some(bad) = source.chars().find(|c| c.is_control()) {
            return Err(DateFormatFault::Control(bad));
        }
        let mut parts = Vec::new();
        read(&source, &mut parts);
        Ok(Self { source, parts })
    }

    /// The original format.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Appends a time. `at_ms` counts from the Unix epoch; local time is `offset_s` seconds ahead of UTC.
    pub fn write(&self, at_ms: u64, offset_s: i32, out: &mut String) {
        let at = date(at_ms, offset_s);
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                // Writing to a String cannot fail.
                Part::Field(field) => drop(field.write(&at, out)),
            }
        }
    }

    /// A time as text.
    pub fn format(&self, at_ms: u64, offset_s: i32) -> String {
        let mut out = String::new();
        self.write(at_ms, offset_s, &mut out);
        out
    }
}

impl TryFrom<String> for DateFormat {
    type Error = DateFormatFault;
    fn try_from(source: String) -> Result<Self, DateFormatFault> {
        Self::new(source)
    }
}

impl From<DateFormat> for String {
    fn from(format: DateFormat) -> Self {
        format.source
    }
}

fn read(mut rest: &str, parts: &mut Vec<Part>) {
    while let Some(first) = rest.chars().next() {
        if let Some(inside) = bracketed(rest) {
            push_literal(parts, inside);
            rest = &rest[inside.len() + 2..];
        } else if let Some(after) = rest.strip_prefix('\\') {
            // Cancels the meaning of the following token, and is removed itself.
            let length = token(after).map_or(0, |(token, _)| token.len());
            push_literal(parts, &after[..length]);
            rest = &after[length..];
        } else if let Some((token, meaning)) = token(rest) {
            match meaning {
                Meaning::Field(field) => parts.push(Part::Field(field)),
                Meaning::Shorthand(form) => read(form, parts),
            }
            rest = &rest[token.len()..];
        } else {
            let length = first.len_utf8();
            push_literal(parts, &rest[..length]);
            rest = &rest[length..];
        }
    }
}

/// The text between an opening bracket here and the last closing bracket before the next opening one.
fn bracketed(text: &str) -> Option<&str> {
    let after = text.strip_prefix('[')?;
    let until = after.find('[').unwrap_or(after.len());
    let end = after[..until].rfind(']')?;
    Some(&after[..end])
}

enum Meaning {
    Field(Field),
    Shorthand(&'static str),
}

fn token(text: &str) -> Option<(&'static str, Meaning)> {
    let shorthand = SHORTHANDS.iter().find(|(token, _)| text.starts_with(token));
    let field = || TOKENS.iter().find(|(token, _)| text.starts_with(token));
    match shorthand {
        Some((token, form)) => Some((token, Meaning::Shorthand(form))),
        None => field().map(|(token, field)| (*token, Meaning::Field(*field))),
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Literal(literal)) => literal.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

/// Milliseconds since the Unix epoch as `2026-01-31T23:59:59.123Z` (ISO 8601, UTC).
pub fn iso_8601(at_ms: u64) -> String {
    utc(at_ms, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

/// Milliseconds since the Unix epoch in UTC, in a `strftime` format.
pub fn utc(at_ms: u64, form: &str) -> String {
    date(at_ms, 0).format(form).to_string()
}

/// A calendar time, limited to the calendar's last time.
fn date(at_ms: u64, offset_s: i32) -> DateTime<FixedOffset> {
    let zone = FixedOffset::east_opt(offset_s).unwrap_or(Utc.fix());
    let known = i64::try_from(at_ms).ok().and_then(DateTime::from_timestamp_millis);
    let last = || DateTime::<Utc>::MAX_UTC - TimeDelta::days(7);
    known.filter(|at| *at < last()).unwrap_or_else(last).with_timezone(&zone)
}

impl Field {
    fn write(self, at: &DateTime<FixedOffset>, out: &mut String) -> fmt::Result {
        let saturday = || at.date_naive() + Days::new(6 - u64::from(at.weekday().num_days_from_sunday()));
        let week = || saturday().ordinal0() / 7 + 1;
        match self {
            As(form) => write!(out, "{}", at.format(form)),
            Start(form, bytes) => out.write_str(&at.format(form).to_string()[..bytes]),
            Ordinal(form) => {
                let number = at.format(form).to_string();
                write!(out, "{number}{}", ordinal_suffix(number.parse().unwrap_or(0)))
            }
            OfSaturday(form) => write!(out, "{}", saturday().format(form)),
            Week(digits) => write!(out, "{:0digits$}", week()),
            WeekOrdinal => write!(out, "{}{}", week(), ordinal_suffix(week())),
            Hour24(digits) => write!(out, "{:0digits$}", (at.hour() + 23) % 24 + 1),
            Year(digits) => write!(out, "{:0digits$}", at.year()),
            LongYear => write!(out, "{:+07}", at.year()),
            Millis => write!(out, "{}", at.timestamp_millis()),
            Zone => out.write_str(if at.offset().local_minus_utc() == 0 { "UTC" } else { "" }),
        }
    }
}

fn ordinal_suffix(number: u32) -> &'static str {
    match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

#[cfg(test)]
mod tests;
