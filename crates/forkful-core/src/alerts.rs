//! Alerts: which incidents are sent to a command or a webhook, and how often. The daemon sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Time;
use crate::incidents::IncidentKind;
use crate::spec::Named as _;

/// Pairs of app and kind that are remembered; a bound on what apps with ever new names can leave behind.
const REMEMBERED_MAX: usize = 1024;

/// Where alerts of an app go. At least one of `command` and `webhook` is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "AlertsDefinition", deny_unknown_fields)
)]
pub struct AlertPolicy {
    /// A program with its arguments, run as the app's user. It gets the alert as JSON on stdin.
    #[serde(default)]
    pub command: Vec<String>,
    /// A URL to which the alert is posted as JSON: https, or http to the machine itself. Replies show only its host, because the URL
    /// is the permission to post.
    #[serde(default)]
    pub webhook: Option<String>,
    /// The kinds for which alerts are sent.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeSet<IncidentKind>"))]
    pub on: BTreeSet<AlertKind>,
    /// The shortest time between two alerts of the same kind, at least 10 s.
    #[serde(rename = "every_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub every: Duration,
    /// How long the command or the request may take.
    #[serde(rename = "timeout_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub timeout: Duration,
}

/// A kind of incidents in an app's alerts. A kind of another version is kept, so that a state which that version has saved can be
/// read and is saved again as it was; it never occurs here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlertKind {
    Known(IncidentKind),
    /// Its name.
    Unknown(String),
}

impl AlertKind {
    fn name(&self) -> &str {
        match self {
            Self::Known(kind) => kind.name(),
            Self::Unknown(name) => name,
        }
    }
}

impl Serialize for AlertKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for AlertKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(IncidentKind::named(&name).map_or(Self::Unknown(name), Self::Known))
    }
}

/// The host of `host`, `host:port` or `[address]:port`; `None` if the rest is no port.
pub(crate) fn host_in(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

impl AlertPolicy {
    pub const EVERY_DEFAULT: Duration = Duration::from_secs(5 * 60);
    /// The shortest pause: people read alerts, and an app that crashes again and again has many incidents in a second.
    pub const EVERY_LEAST: Duration = Duration::from_secs(10);
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
    /// The longest command or request.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(60);
    pub const WEBHOOK_BYTES_MAX: usize = 2048;

    /// The defaults: all kinds of faults, without a command or a webhook.
    pub fn of_all_faults() -> Self {
        Self {
            command: Vec::new(),
            webhook: None,
            on: IncidentKind::ALL
                .iter()
                .map(|(kind, ..)| *kind)
                .filter(|kind| kind.is_fault())
                .map(AlertKind::Known)
                .collect(),
            every: Self::EVERY_DEFAULT,
            timeout: Self::TIMEOUT_DEFAULT,
        }
    }

    /// In how many ways an alert is sent.
    pub fn ways(&self) -> usize {
        usize::from(self.webhook.is_some()) + usize::from(!self.command.is_empty())
    }

    /// Whether all kinds are known to this version. A request needs that; a saved state, which another version may have written, does not.
    ///
    /// # Errors
    /// The unknown kind and the known ones, in a sentence.
    pub fn check_kinds(&self) -> Result<(), String> {
        let unknown = self.on.iter().find_map(|kind| match kind {
            AlertKind::Known(_) => None,
            AlertKind::Unknown(name) => Some(name),
        });
        let Some(unknown) = unknown else { return Ok(()) };
        let known = IncidentKind::NAMES.join(", ");
        Err(format!("`alerts.on` has {unknown:?}, which is none of {known}"))
    }

    /// Whether something may be posted to a URL: over https, or over http to the machine itself.
    pub fn is_webhook(url: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_graphic();
        let Some((scheme, rest)) = url.split_once("://") else { return false };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let Some(host) = host_in(authority) else { return false };
        // Redacted by a reply: https://hooks.example.com/[redacted].
        let is_whole = !url.contains(crate::spec::environment::REDACTED);
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let is_here =
            host == "localhost" || host == "::1" || host.starts_with("127.") && host.chars().all(is_number);
        let is_safe = scheme == "https" || scheme == "http" && is_here;
        let fits = url.len() <= Self::WEBHOOK_BYTES_MAX && url.chars().all(is_plain);
        is_safe && fits && is_whole && !host.is_empty() && !authority.contains('@')
    }

    /// Redacts the webhook and secrets among the command's arguments, for output.
    pub fn redact(&mut self) {
        self.webhook = self.webhook.as_deref().map(Self::shown_webhook);
        self.command = crate::spec::environment::shown_arguments(&self.command);
    }

    /// Where alerts go, in words, without what is secret: `https://hooks.example.com/[redacted], ./notify.sh oncall`.
    pub fn shown_receivers(&self) -> String {
        let webhook = self.webhook.as_deref().map(Self::shown_webhook);
        let command = (!self.command.is_empty())
            .then(|| crate::spec::environment::shown_arguments(&self.command).join(" "));
        webhook.into_iter().chain(command).collect::<Vec<_>>().join(", ")
    }

    /// Where the webhook is, without what only those should know who post there: user, password, path and query.
    pub fn shown_webhook(url: &str) -> String {
        let redacted = crate::spec::environment::REDACTED;
        let Some((scheme, rest)) = url.split_once("://") else { return redacted.to_owned() };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        // A password with a slash in it looks like a host with a port that is no number.
        let is_host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, port)) => is_port(port.strip_prefix(':').unwrap_or(port)),
            None => host.split_once(':').is_none_or(|(_, port)| is_port(port)),
        };
        if !is_host {
            return format!("{scheme}://{redacted}");
        }
        format!("{scheme}://{host}/{redacted}")
    }
}

fn is_port(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit())
}

/// The alerts that are under way, by app. An app whose webhook does not answer takes no room from others: each app has its own
/// bound, and the bound of all is only for apps that have some under way already.
#[derive(Debug, Default)]
pub struct UnderWay {
    of_apps: BTreeMap<String, usize>,
}

impl UnderWay {
    /// Commands and requests of an app at a time.
    pub const OF_APP_MAX: usize = 8;
    /// Of all apps, but for the first alert of each.
    pub const MAX: usize = 64;

    /// Notes an alert that is sent in this number of ways (command, webhook); `false` when there is no room for it.
    pub fn begin(&mut self, app: &str, ways: usize) -> bool {
        let own = self.of(app);
        let has_room =
            own + ways <= Self::OF_APP_MAX && self.of_apps.values().sum::<usize>() + ways <= Self::MAX;
        if own > 0 && !has_room {
            return false;
        }
        *self.of_apps.entry(app.to_owned()).or_default() += ways;
        true
    }

    /// One of the ways has come to its end.
    pub fn end(&mut self, app: &str) {
        let Some(own) = self.of_apps.get_mut(app) else { return };
        *own = own.saturating_sub(1);
        if *own == 0 {
            self.of_apps.remove(app);
        }
    }

    /// How many an app has.
    pub fn of(&self, app: &str) -> usize {
        self.of_apps.get(app).copied().unwrap_or_default()
    }
}

/// Which alerts were sent, and when.
#[derive(Debug, Default)]
pub struct AlertBook {
    told: BTreeMap<(String, IncidentKind), Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    /// When the last one was sent, if any was.
    at: Option<Time>,
    every: Duration,
    /// Incidents since then without an alert.
    left_out: u64,
    /// Whether it reached nobody.
    is_lost: bool,
}

/// Why no alert is sent for an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// The app wants none of this kind.
    Unwanted,
    /// The last one of this kind is too recent.
    TooSoon,
    /// Too many alerts are under way. The number: alerts that this app has under way.
    NoRoom(usize),
}

impl AlertBook {
    /// Decides whether an alert is sent for an incident of an app, and takes room for it. Gives the number of incidents of this kind
    /// since the last alert. An alert without room does not start the pause until the next of its kind.
    pub fn step(
        &mut self,
        (app, kind): (&str, IncidentKind),
        alerts: &AlertPolicy,
        under_way: &mut UnderWay,
        now: Time,
    ) -> Result<u64, NotSent> {
        if !alerts.on.contains(&AlertKind::Known(kind)) {
            return Err(NotSent::Unwanted);
        }
        let key = (app.to_owned(), kind);
        let is_recent = |at: Option<Time>, pause| at.is_some_and(|at| now.since(at) < pause);
        if let Some(told) = self.told.get_mut(&key)
            && is_recent(told.at, if told.is_lost { AlertPolicy::EVERY_LEAST } else { alerts.every })
        {
            told.left_out += 1;
            return Err(NotSent::TooSoon);
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.retain(|_, told| is_recent(told.at, told.every));
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        let never = Told { at: None, every: alerts.every, left_out: 0, is_lost: false };
        let told = self.told.entry(key).or_insert(never);
        if !under_way.begin(app, alerts.ways()) {
            told.left_out += 1;
            return Err(NotSent::NoRoom(under_way.of(app)));
        }
        Ok(std::mem::replace(told, Told { at: Some(now), ..never }).left_out)
    }

    /// The alert about an incident at `at` reached nobody. The next alert of its kind follows after the shortest pause. It counts this
    /// incident, and the `left_out` incidents that the lost alert counted.
    pub fn undelivered(&mut self, app: &str, kind: IncidentKind, at: Time, left_out: u64) {
        let told = self.told.get_mut(&(app.to_owned(), kind));
        if let Some(told) = told {
            told.is_lost |= told.at == Some(at);
            told.left_out += left_out + 1;
        }
    }

    /// An app is deleted: another one of its name begins anew.
    pub fn forget(&mut self, app: &str) {
        self.told.retain(|(of, _), _| of != app);
    }
}
