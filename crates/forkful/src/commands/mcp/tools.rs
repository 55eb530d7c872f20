//! The available calls: names, descriptions and arguments.

use std::sync::Arc;

use forkful_core::doctor::SECONDS_MIN;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Maximum log lines of a call.
pub(super) const LINES_MAX: u32 = 1000;
/// Default number of log lines.
pub(super) const LINES_DEFAULT: u32 = 100;

/// Maximum incidents of a list; the daemon keeps no more.
pub(super) const INCIDENTS_MAX: u64 = 200;
/// Default number of incidents of a list.
pub(super) const INCIDENTS_DEFAULT: u64 = 50;

/// Default number of seconds for a verdict.
pub(super) const DOCTOR_SECONDS: u64 = 30;

/// The available calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName {
    ListApps,
    DescribeApp,
    AppLogs,
    Doctor,
    Stalls,
    Metrics,
    Incidents,
    LabReports,
    Restart,
    Reload,
    Scale,
    Stop,
}

impl ToolName {
    pub(super) const ALL: [Self; 12] = [
        Self::ListApps,
        Self::DescribeApp,
        Self::AppLogs,
        Self::Doctor,
        Self::Stalls,
        Self::Metrics,
        Self::Incidents,
        Self::LabReports,
        Self::Restart,
        Self::Reload,
        Self::Scale,
        Self::Stop,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListApps => "list_apps",
            Self::DescribeApp => "describe_app",
            Self::AppLogs => "app_logs",
            Self::Doctor => "doctor",
            Self::Stalls => "stalls",
            Self::Metrics => "metrics",
            Self::Incidents => "incidents",
            Self::LabReports => "lab_reports",
            Self::Restart => "restart_app",
            Self::Reload => "reload_app",
            Self::Scale => "scale_app",
            Self::Stop => "stop_app",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether it changes apps.
    pub(super) fn changes(self) -> bool {
        matches!(self, Self::Restart | Self::Reload | Self::Scale | Self::Stop)
    }

    fn words(self) -> &'static str {
        match self {
            Self::ListApps => {
                "All apps and their workers: state, restarts, crashes, CPU, memory, and why a worker is in its state."
            }
            Self::DescribeApp => {
                "Everything about one app and its workers, with the last lines of stderr. Names of environment variables, never values."
            }
            Self::AppLogs => "The last lines that workers of an app wrote, oldest first.",
            Self::Doctor => {
                "Why an app is slow, or was in the last hour: the cause, how sure that is, the numbers behind it, what to do and what to expect."
            }
            Self::Stalls => {
                "Where the event loops of an app were blocked: by route and function, with how often, how long, and how long requests waited."
            }
            Self::Metrics => {
                "Current metrics of each worker: event loop, heap, garbage collection, requests."
            }
            Self::Incidents => {
                "Crashes, failed reloads and other incidents of apps, also of deleted ones: without `id` a list, the newest last; with it one incident with its last lines of stderr and last metrics."
            }
            Self::LabReports => {
                "Saved reports of `forkful bench`, `compare` and `tune`: without `name` the list, with it one report."
            }
            Self::Restart => "Stops the workers of an app and starts them again; requests may be lost.",
            Self::Reload => {
                "Replaces the workers of an app one after the other without losing a request; if the new ones fail, the old ones stay."
            }
            Self::Scale => "Changes the number of an app's workers.",
            Self::Stop => "Stops an app. It stays in the list.",
        }
    }

    fn schema(self) -> Value {
        let app = json!({ "type": "string", "minLength": 1, "maxLength": 256,
            "description": "The name of an app, or the id of a worker" });
        let (properties, required) = match self {
            Self::ListApps => (json!({}), json!([])),
            Self::DescribeApp | Self::Restart | Self::Reload | Self::Stop => {
                (json!({ "app": app }), json!(["app"]))
            }
            Self::Stalls | Self::Metrics => (json!({ "app": app }), json!([])),
            Self::Doctor => (
                json!({
                    "app": app,
                    "seconds": { "type": "integer", "minimum": SECONDS_MIN, "maximum": 600, "default": DOCTOR_SECONDS },
                    "ago": { "type": "integer", "minimum": 0, "maximum": 3600, "default": 0,
                        "description": "How many seconds ago the seconds ended" },
                }),
                json!(["app"]),
            ),
            Self::AppLogs => (
                json!({
                    "app": app,
                    "lines": { "type": "integer", "minimum": 1, "maximum": LINES_MAX, "default": LINES_DEFAULT },
                    "stream": { "enum": ["out", "err"], "description": "Only stdout, or only stderr" },
                    "contains": { "type": "string", "maxLength": 256, "description": "Only lines with this text" },
                }),
                json!(["app"]),
            ),
            Self::Incidents => (
                json!({
                    "app": app,
                    "since": { "type": "integer", "minimum": 0, "description": "Only incidents of this many last seconds" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": INCIDENTS_MAX, "default": INCIDENTS_DEFAULT,
                        "description": "Only this many, the newest" },
                    "id": { "type": "integer", "minimum": 0, "description": "The number of one incident, as the list has it; without other arguments" },
                }),
                json!([]),
            ),
            Self::LabReports => (
                json!({ "name": { "type": "string", "maxLength": 256, "description": "A name from the list" } }),
                json!([]),
            ),
            Self::Scale => (
                json!({ "app": app, "workers": { "type": "integer", "minimum": 1, "maximum": 1024 } }),
                json!(["app", "workers"]),
            ),
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    /// Its description for clients.
    pub(super) fn description(self) -> Tool {
        let Value::Object(schema) = self.schema() else { unreachable!("a schema is an object") };
        let destroys = matches!(self, Self::Restart | Self::Stop);
        let hints = ToolAnnotations::from_raw(
            None,
            Some(!self.changes()),
            self.changes().then_some(destroys),
            Some(!destroys),
            Some(false),
        );
        Tool::new(self.name(), self.words(), Arc::new(schema)).with_annotations(hints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_means_one_tool_and_what_changes_apps_says_so() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::parse(tool.name()), Some(tool));
            let hints = tool.description().annotations.unwrap();
            assert_eq!(hints.read_only_hint, Some(!tool.changes()), "{}", tool.name());
        }
        assert_eq!(ToolName::parse("kill"), None);
    }
}
