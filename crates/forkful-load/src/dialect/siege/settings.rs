//! `siege.conf`: `key = value` lines. What siege would do with them is done; what has no meaning here is passed
//! over, as siege passes over what it does not know.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FAILURES_MAX, basic};
use crate::dialect::{Printed, Surroundings};
use crate::{BasicAuth, Request};

/// siege's options before they are complete.
#[expect(clippy::struct_excessive_bools, reason = "a configuration file has many switches")]
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) url: Option<String>,
    pub(super) file: Option<PathBuf>,
    pub(super) users: u64,
    pub(super) limit: u64,
    pub(super) repetitions: Option<u64>,
    pub(super) time: Option<Duration>,
    pub(super) delay: Duration,
    pub(super) at_random: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
    pub(super) keep_alive: bool,
    pub(super) timeout: u64,
    pub(super) failures_max: u64,
    pub(super) log: Option<PathBuf>,
    pub(super) log_file: PathBuf,
    pub(super) mark: Option<String>,
    pub(super) parser: bool,
    pub(super) follow: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) user_agent: String,
    pub(super) content_type: String,
    pub(super) accept_encoding: String,
    pub(super) login: Option<BasicAuth>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: None,
            file: None,
            users: 25,
            limit: 255,
            repetitions: None,
            time: None,
            delay: Duration::ZERO,
            at_random: false,
            json: false,
            quiet: false,
            verbose: false,
            keep_alive: false,
            timeout: 30,
            failures_max: FAILURES_MAX,
            log: None,
            log_file: "siege.log".into(),
            mark: None,
            parser: true,
            follow: true,
            headers: Vec::new(),
            user_agent: "Mozilla/5.0 (forkful) Siege/4.0.7".to_owned(),
            content_type: "application/x-www-form-urlencoded".to_owned(),
            accept_encoding: "gzip, deflate".to_owned(),
            login: None,
        }
    }
}

/// The settings of the file that siege would read: the given one, which must be there, or its own, if it is.
pub(super) fn load(given: Option<PathBuf>, surroundings: &Surroundings) -> Result<Settings, Printed> {
    let required = given.is_some();
    let variable = |name: &str| (surroundings.variable)(name).filter(|value| !value.is_empty());
    let path = given
        .or_else(|| variable("SIEGERC").map(PathBuf::from))
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".siege/siege.conf")));
    let mut settings = Settings::default();
    let Some(path) = path else { return Ok(settings) };
    match (surroundings.read)(&path) {
        Ok(bytes) => settings.read(&String::from_utf8_lossy(&bytes)),
        Err(error) if required => {
            return Err(Printed::error(&format!("siege: cannot read {}: {error}", path.display()), 1));
        }
        Err(_) => {}
    }
    Ok(settings)
}

impl Settings {
    fn read(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some((key, value)) = line.split_once(['=', ' ', '\t']) {
                let value = value.trim_start_matches(|c: char| c == '=' || c.is_whitespace()).trim();
                self.set(key.trim(), value);
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let on = matches!(value, "true" | "yes" | "on" | "1" | "t" | "y");
        let number = || value.parse::<u64>().ok();
        match key {
            "verbose" => self.verbose = on,
            "quiet" => self.quiet = on,
            "json_output" => self.json = on,
            "connection" => self.keep_alive = value.eq_ignore_ascii_case("keep-alive"),
            "concurrent" => self.users = number().unwrap_or(self.users),
            "limit" => self.limit = number().unwrap_or(self.limit),
            "reps" => self.repetitions = number(),
            "time" => self.time = time(value),
            "delay" => self.delay = delay(value).unwrap_or(self.delay),
            "benchmark" if on => self.delay = Duration::ZERO,
            "internet" => self.at_random = on,
            "timeout" => self.timeout = number().unwrap_or(self.timeout),
            "failures" => self.failures_max = number().unwrap_or(self.failures_max),
            "file" => self.file = Some(value.into()),
            "logging" => self.log = on.then(|| self.log_file.clone()),
            "logfile" => self.log_file = value.into(),
            "parser" => self.parser = on,
            "follow-location" => self.follow = on,
            "user-agent" => value.clone_into(&mut self.user_agent),
            "accept-encoding" => value.clone_into(&mut self.accept_encoding),
            "login" => self.login = Some(basic(value)),
            "header" => {
                if let Some((name, value)) = value.split_once(':') {
                    self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Adds to a request what siege sends with each.
    pub(super) fn dress(&self, request: &mut Request) {
        request.headers.clone_from(&self.headers);
        let mut add = |name: &str, value: &str| {
            let given = request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
            if !given && !value.is_empty() {
                request.headers.push((name.to_owned(), value.to_owned()));
            }
        };
        add("Accept", "*/*");
        add("Accept-Encoding", &self.accept_encoding);
        add("User-Agent", &self.user_agent);
        if !request.body.is_empty() {
            add("Content-Type", &self.content_type);
        }
        request.basic_auth.clone_from(&self.login);
    }
}

/// `30S`, `2M`, `1H` in either case; a bare number is minutes.
pub(super) fn time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.trim().parse().ok().filter(|count| *count > 0)?;
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "S" => 1,
        "" | "M" => 60,
        "H" => 3_600,
        _ => return None,
    };
    Some(Duration::from_secs(count.checked_mul(unit)?))
}

/// Seconds with a fraction.
pub(super) fn delay(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
