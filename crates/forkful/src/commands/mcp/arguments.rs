//! What a client asks for: a call with its arguments, checked. Pure.

use std::time::Duration;

use forkful_api::types::{LogStream, Verb};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tools::{DOCTOR_SECONDS, INCIDENTS_DEFAULT, INCIDENTS_MAX, LINES_DEFAULT, LINES_MAX, ToolName};

/// The longest accepted app name.
const NAME_BYTES_MAX: usize = 256;

/// A call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    ListApps,
    DescribeApp {
        app: String,
    },
    AppLogs(WantedLogs),
    Doctor {
        app: String,
        seconds: u64,
        ago: Duration,
    },
    Stalls {
        /// An app, or `all`.
        target: String,
    },
    Metrics {
        app: Option<String>,
    },
    Incidents(WantedIncidents),
    /// One, with its details.
    Incident {
        id: u64,
    },
    LabReports {
        name: Option<String>,
    },
    /// Restart, reload or stop.
    Act {
        verb: Verb,
        app: String,
    },
    Scale {
        app: String,
        workers: u16,
    },
}

/// The log lines that a call wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedLogs {
    pub(super) app: String,
    /// 1 to [`LINES_MAX`].
    pub(super) lines: u32,
    pub(super) stream: Option<LogStream>,
    /// Only lines with this text.
    pub(super) contains: Option<String>,
}

/// The incidents that a call wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedIncidents {
    pub(super) app: Option<String>,
    /// Only those of this time until now.
    pub(super) since: Option<Duration>,
    /// 1 to [`INCIDENTS_MAX`].
    pub(super) limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfApp {
    app: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSome {
    app: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLogs {
    app: String,
    lines: Option<u32>,
    stream: Option<LogStream>,
    contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfScale {
    app: String,
    workers: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfDoctor {
    app: String,
    seconds: Option<u64>,
    ago: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfIncidents {
    app: Option<String>,
    since: Option<u64>,
    limit: Option<u64>,
    id: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfReport {
    name: Option<String>,
}

impl Call {
    /// The name of the app, or the id of the worker, without which the call makes no sense.
    pub(super) fn one_app(&self) -> Option<&str> {
        match self {
            Self::DescribeApp { app }
            | Self::Doctor { app, .. }
            | Self::Act { app, .. }
            | Self::Scale { app, .. } => Some(app),
            Self::AppLogs(wanted) => Some(&wanted.app),
            _ => None,
        }
    }

    /// Reads the arguments of a call. The error is a sentence, which may repeat what the client sent.
    pub(super) fn read(tool: ToolName, arguments: Value) -> Result<Self, String> {
        let act = |verb, arguments| {
            let OfApp { app } = read(arguments)?;
            Ok(Self::Act { verb, app: named(app)? })
        };
        Ok(match tool {
            ToolName::ListApps => {
                let Nothing {} = read(arguments)?;
                Self::ListApps
            }
            ToolName::DescribeApp => {
                let OfApp { app } = read(arguments)?;
                Self::DescribeApp { app: named(app)? }
            }
            ToolName::Doctor => {
                let OfDoctor { app, seconds, ago } = read(arguments)?;
                let ago = Duration::from_secs(ago.unwrap_or_default());
                Self::Doctor { app: named(app)?, seconds: seconds.unwrap_or(DOCTOR_SECONDS), ago }
            }
            ToolName::Stalls => {
                let OfSome { app } = read(arguments)?;
                Self::Stalls { target: named(app.unwrap_or_else(|| "all".to_owned()))? }
            }
            ToolName::Metrics => {
                let OfSome { app } = read(arguments)?;
                Self::Metrics { app: app.map(named).transpose()? }
            }
            ToolName::Incidents => incidents(read(arguments)?)?,
            ToolName::AppLogs => Self::AppLogs(logs(read(arguments)?)?),
            ToolName::LabReports => {
                let OfReport { name } = read(arguments)?;
                Self::LabReports { name }
            }
            ToolName::Restart => return act(Verb::Restart, arguments),
            ToolName::Reload => return act(Verb::Reload, arguments),
            ToolName::Stop => return act(Verb::Stop, arguments),
            ToolName::Scale => {
                let OfScale { app, workers } = read(arguments)?;
                Self::Scale { app: named(app)?, workers }
            }
        })
    }
}

fn incidents(OfIncidents { app, since, limit, id }: OfIncidents) -> Result<Call, String> {
    if let Some(id) = id {
        if app.is_some() || since.is_some() || limit.is_some() {
            return Err("`id` is for one incident, without `app`, `since` and `limit`".to_owned());
        }
        return Ok(Call::Incident { id });
    }
    let limit = limit.unwrap_or(INCIDENTS_DEFAULT);
    if limit == 0 || limit > INCIDENTS_MAX {
        return Err(format!("`limit` must be 1 to {INCIDENTS_MAX}"));
    }
    let since = since.map(Duration::from_secs);
    Ok(Call::Incidents(WantedIncidents { app: app.map(named).transpose()?, since, limit: limit as usize }))
}

fn logs(OfLogs { app, lines, stream, contains }: OfLogs) -> Result<WantedLogs, String> {
    let lines = lines.unwrap_or(LINES_DEFAULT);
    if lines == 0 || lines > LINES_MAX {
        return Err(format!("`lines` must be 1 to {LINES_MAX}"));
    }
    Ok(WantedLogs { app: named(app)?, lines, stream, contains })
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("the arguments are wrong: {error}"))
}

fn named(app: String) -> Result<String, String> {
    if app.is_empty() || app.len() > NAME_BYTES_MAX {
        return Err(format!("`app` has 1 to {NAME_BYTES_MAX} characters"));
    }
    Ok(app)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_unknown_or_out_of_range_is_told() {
        let refused = |tool, arguments| Call::read(tool, arguments).unwrap_err();
        for (tool, arguments, why) in [
            (ToolName::ListApps, json!({ "app": "api" }), "unknown field `app`"),
            (ToolName::DescribeApp, json!({}), "missing field `app`"),
            (ToolName::Stop, json!({ "app": "" }), "`app` has 1 to 256 characters"),
            (ToolName::Metrics, json!({ "app": "x".repeat(257) }), "`app` has 1 to 256 characters"),
            (ToolName::AppLogs, json!({ "app": "api", "lines": 1001 }), "`lines` must be 1 to 1000"),
            (ToolName::Scale, json!({ "app": "api", "workers": -1 }), "invalid value"),
            (ToolName::Doctor, json!({ "app": 1 }), "invalid type"),
            (ToolName::Incidents, json!({ "limit": 201 }), "`limit` must be 1 to 200"),
            (ToolName::Incidents, json!({ "id": 7, "app": "api" }), "`id` is for one incident"),
        ] {
            let told = refused(tool, arguments);
            assert!(told.contains(why), "{}: {told}", tool.name());
        }
        let call = Call::read(ToolName::Reload, json!({ "app": "api" }));
        assert_eq!(call, Ok(Call::Act { verb: Verb::Reload, app: "api".to_owned() }));
    }
}
