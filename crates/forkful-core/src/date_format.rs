//! Times as text in a form that the user gives, in the tokens of Moment.js and Day.js that PM2's users know
//! (`YYYY-MM-DD HH:mm:ss.SSS Z`). Names are English, weeks begin on Sunday where the locale decides.
//!
//! Not here: what time it is and how far the local time is from UTC; both are arguments.

use std::fmt::{self, Write};

/// The longest form, in bytes; a bound on what stands before each line.
pub const DATE_FORMAT_BYTES_MAX: usize = 256;

/// A form of dates, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct DateFormat {
    source: String,
    parts: Vec<Part>,
}

/// Why a text is no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateFormatFault {
    /// Nothing is in it.
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

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// A number, with leading zeros up to so many digits.
    Number(Quantity, usize),
    /// A number as `1st`.
    Ordinal(Quantity),
    /// The last two digits of a year.
    ShortYear(Quantity),
    /// A sign and six digits.
    LongYear,
    /// So many letters of the month's name; 0 is all.
    Month(usize),
    /// So many letters of the weekday's name; 0 is all.
    Weekday(usize),
    /// `AM` or `am`.
    Half { upper: bool },
    /// So many digits of the fraction of a second.
    Fraction(usize),
    /// `+02:00`, or without the colon.
    Offset { colon: bool },
    /// Seconds since the Unix epoch.
    Seconds,
    /// Milliseconds since the Unix epoch.
    Millis,
    /// The zone's name, which is known of UTC alone.
    Zone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Year,
    Quarter,
    Month,
    Day,
    DayOfYear,
    /// 0 is Sunday.
    Weekday,
    /// 1 is Monday.
    IsoWeekday,
    Week,
    WeekYear,
    IsoWeek,
    IsoWeekYear,
    /// 0 to 23.
    Hour,
    /// 1 to 12.
    Hour12,
    /// 1 to 24.
    Hour24,
    Minute,
    Second,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Tokens that stand for others, longest first.
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

use Field::{Fraction, Half, LongYear, Millis, Number, Offset, Ordinal, Seconds, ShortYear, Zone};

/// All others; of those that begin alike the longest comes first.
const TOKENS: &[(&str, Field)] = &[
    ("YYYYYY", LongYear),
    ("YYYYY", Number(Quantity::Year, 5)),
    ("YYYY", Number(Quantity::Year, 4)),
    ("YY", ShortYear(Quantity::Year)),
    ("Y", Number(Quantity::Year, 1)),
    ("Qo", Ordinal(Quantity::Quarter)),
    ("Q", Number(Quantity::Quarter, 1)),
    ("MMMM", Field::Month(0)),
    ("MMM", Field::Month(3)),
    ("MM", Number(Quantity::Month, 2)),
    ("Mo", Ordinal(Quantity::Month)),
    ("M", Number(Quantity::Month, 1)),
    ("DDDo", Ordinal(Quantity::DayOfYear)),
    ("DDDD", Number(Quantity::DayOfYear, 3)),
    ("DDD", Number(Quantity::DayOfYear, 1)),
    ("DD", Number(Quantity::Day, 2)),
    ("Do", Ordinal(Quantity::Day)),
    ("D", Number(Quantity::Day, 1)),
    ("dddd", Field::Weekday(0)),
    ("ddd", Field::Weekday(3)),
    ("dd", Field::Weekday(2)),
    ("do", Ordinal(Quantity::Weekday)),
    ("d", Number(Quantity::Weekday, 1)),
    ("e", Number(Quantity::Weekday, 1)),
    ("E", Number(Quantity::IsoWeekday, 1)),
    ("ww", Number(Quantity::Week, 2)),
    ("wo", Ordinal(Quantity::Week)),
    ("w", Number(Quantity::Week, 1)),
    ("WW", Number(Quantity::IsoWeek, 2)),
    ("Wo", Ordinal(Quantity::IsoWeek)),
    ("W", Number(Quantity::IsoWeek, 1)),
    ("gggg", Number(Quantity::WeekYear, 4)),
    ("gg", ShortYear(Quantity::WeekYear)),
    ("GGGG", Number(Quantity::IsoWeekYear, 4)),
    ("GG", ShortYear(Quantity::IsoWeekYear)),
    ("A", Half { upper: true }),
    ("a", Half { upper: false }),
    ("HH", Number(Quantity::Hour, 2)),
    ("H", Number(Quantity::Hour, 1)),
    ("hh", Number(Quantity::Hour12, 2)),
    ("h", Number(Quantity::Hour12, 1)),
    ("kk", Number(Quantity::Hour24, 2)),
    ("k", Number(Quantity::Hour24, 1)),
    ("mm", Number(Quantity::Minute, 2)),
    ("m", Number(Quantity::Minute, 1)),
    ("ss", Number(Quantity::Second, 2)),
    ("s", Number(Quantity::Second, 1)),
    ("SSSSSSSSS", Fraction(9)),
    ("SSSSSSSS", Fraction(8)),
    ("SSSSSSS", Fraction(7)),
    ("SSSSSS", Fraction(6)),
    ("SSSSS", Fraction(5)),
    ("SSSS", Fraction(4)),
    ("SSS", Fraction(3)),
    ("SS", Fraction(2)),
    ("S", Fraction(1)),
    ("X", Seconds),
    ("x", Millis),
    ("zz", Zone),
    ("z", Zone),
    ("ZZ", Offset { colon: false }),
    ("Z", Offset { colon: true }),
];

impl DateFormat {
    /// Reads a form. What is no token stands for itself, and so does what is in `[brackets]`.
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

    /// The form as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Appends a time. `at_ms` counts from the Unix epoch; local time is `offset_s` seconds ahead of UTC.
    pub fn write(&self, at_ms: u64, offset_s: i32, out: &mut String) {
        let civil = Civil::new(at_ms, offset_s);
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                // Writing to a String cannot fail.
                Part::Field(field) => drop(civil.write(*field, out)),
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

fn read(mut rest: &str, parts: &mut Vec<Part>) {
    while let Some(first) = rest.chars().next() {
        if let Some(inside) = bracketed(rest) {
            push_literal(parts, inside);
            rest = &rest[inside.len() + 2..];
        } else if let Some(after) = rest.strip_prefix('\\') {
            // Takes the meaning from the token that follows, and is left out itself.
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

/// What is between a bracket that opens here and the last that closes before another one opens.
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
    let civil = Civil::new(at_ms, 0);
    let Civil { year, month, day, hour, minute, second, ms, .. } = civil;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// A time in the calendar.
#[derive(Debug, Clone, Copy)]
struct Civil {
    at_ms: u64,
    offset_s: i32,
    year: i64,
    month: i64,
    day: i64,
    /// 1 is 1 January.
    day_of_year: i64,
    /// 0 is Sunday.
    weekday: i64,
    hour: i64,
    minute: i64,
    second: i64,
    ms: u64,
}

impl Civil {
    fn new(at_ms: u64, offset_s: i32) -> Self {
        let seconds = i64::try_from(at_ms / 1000).unwrap_or(i64::MAX / 2) + i64::from(offset_s);
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Self {
            at_ms,
            offset_s,
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1) + 1,
            // 1 January 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            ms: at_ms % 1000,
        }
    }

    fn quantity(&self, quantity: Quantity) -> i64 {
        match quantity {
            Quantity::Year => self.year,
            Quantity::Quarter => (self.month + 2) / 3,
            Quantity::Month => self.month,
            Quantity::Day => self.day,
            Quantity::DayOfYear => self.day_of_year,
            Quantity::Weekday => self.weekday,
            Quantity::IsoWeekday => (self.weekday + 6) % 7 + 1,
            // In the week of 1 January (which is in it whatever weekday it is), from Sunday to Saturday.
            Quantity::Week => self.week(0, 6).1,
            Quantity::WeekYear => self.week(0, 6).0,
            // In the week of the first Thursday, from Monday to Sunday.
            Quantity::IsoWeek => self.week(1, 3).1,
            Quantity::IsoWeekYear => self.week(1, 3).0,
            Quantity::Hour => self.hour,
            Quantity::Hour12 => (self.hour + 11) % 12 + 1,
            Quantity::Hour24 => (self.hour + 23) % 24 + 1,
            Quantity::Minute => self.minute,
            Quantity::Second => self.second,
        }
    }

    /// Year and number of the week, where weeks begin at `first_weekday`, and belong to the year in which their
    /// day number `deciding` (from 0) is.
    fn week(&self, first_weekday: i64, deciding: i64) -> (i64, i64) {
        let into_week = (self.weekday - first_weekday).rem_euclid(7);
        let days = days_from_civil(self.year, self.month, self.day) - into_week + deciding;
        let (year, _, _) = civil_from_days(days);
        (year, (days - days_from_civil(year, 1, 1)) / 7 + 1)
    }

    fn write(&self, field: Field, out: &mut String) -> fmt::Result {
        match field {
            Number(quantity, digits) => write!(out, "{:0digits$}", self.quantity(quantity)),
            Ordinal(quantity) => {
                let number = self.quantity(quantity);
                write!(out, "{number}{}", ordinal_suffix(number))
            }
            ShortYear(quantity) => write!(out, "{:02}", self.quantity(quantity).rem_euclid(100)),
            LongYear => write!(out, "{:+07}", self.year),
            Field::Month(letters) => out.write_str(start_of(MONTHS[(self.month - 1) as usize], letters)),
            Field::Weekday(letters) => out.write_str(start_of(WEEKDAYS[self.weekday as usize], letters)),
            Half { upper } => out.write_str(match (self.hour < 12, upper) {
                (true, true) => "AM",
                (false, true) => "PM",
                (true, false) => "am",
                (false, false) => "pm",
            }),
            Fraction(digits) => {
                let text = format!("{:03}000000", self.ms);
                out.write_str(&text[..digits])
            }
            Offset { colon } => {
                let sign = if self.offset_s < 0 { '-' } else { '+' };
                let minutes = self.offset_s.unsigned_abs() / 60;
                let colon = if colon { ":" } else { "" };
                write!(out, "{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
            }
            Seconds => write!(out, "{}", self.at_ms / 1000),
            Millis => write!(out, "{}", self.at_ms),
            Zone => out.write_str(if self.offset_s == 0 { "UTC" } else { "" }),
        }
    }
}

fn start_of(name: &str, letters: usize) -> &str {
    if letters == 0 { name } else { &name[..letters] }
}

fn ordinal_suffix(number: i64) -> &'static str {
    match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

/// Year, month and day of the proleptic Gregorian calendar.
///
/// Counts from 1 March of year 0, so that the leap day is the last of its year: 400 years are 146,097 days,
/// and from March on the months' lengths repeat every five, 153 days.
fn civil_from_days(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let year = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests;
