//! `siege.conf`: `key = value` lines. Settings with a meaning here are applied; others are skipped, as siege
//! skips unknown settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_load::BasicAuth;

use super::{FAILURES_MAX, Repetitions, Siege};
use crate::figures::scaled;
use crate::{Printed, Surroundings, header};

impl Siege {
    /// The settings of the file that siege would read: the given file, which must exist, or its default file,
    /// if it exists.
    pub(super) fn configured(given: Option<PathBuf>, surroundings: &Surroundings) -> Result<Self, Printed> {
        let mut siege = Self {
            users: 25,
            limit: 255,
            timeout: 30,
            failures_max: FAILURES_MAX,
            log_file: "siege.log".into(),
            parser: true,
            follow: true,
            user_agent: "Mozilla/5.0 (forkful) Siege/4.0.7".to_owned(),
            content_type: "application/x-www-form-urlencoded".to_owned(),
            accept_encoding: "gzip, deflate".to_owned(),
            ..Self::default()
        };
        let required = given.is_some();
        let variable = |name: &str| (surroundings.variable)(name).filter(|value| !value.is_empty());
        let path = given
            .or_else(|| variable("SIEGERC").map(PathBuf::from))
            .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".siege/siege.conf")));
        let Some(path) = path else { return Ok(siege) };
        match (surroundings.read)(&path) {
            Ok(bytes) => siege.read(&String::from_utf8_lossy(&bytes)),
            Err(error) if required => {
                return Err(Printed::error(&format!("siege: cannot read {}: {error}", path.display()), 1));
            }
            Err(_) => {}
        }
        Ok(siege)
    }

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
            "reps" => self.repetitions = Repetitions::read(value),
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
            "login" => self.login = Some(BasicAuth::of(without_realm(value))),
            "header" => self.headers.extend(header(value, &[':'])),
            _ => {}
        }
    }
}

/// `user:password`, behind which `:realm` may stand.
fn without_realm(login: &str) -> &str {
    let realm = login.match_indices(':').nth(1);
    realm.map_or(login, |(at, _)| &login[..at])
}

/// `30S`, `2M`, `1H` in either case; a bare number is minutes.
pub(super) fn time(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_uppercase();
    let seconds = scaled(&text, &[("S", 1), ("", 60), ("M", 60), ("H", 3_600)])?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Seconds with a fraction.
pub(super) fn delay(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
