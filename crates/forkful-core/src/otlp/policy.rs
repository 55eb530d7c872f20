//! Where metrics go.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use crate::alerts::{AlertPolicy, host_in};

/// Where the metrics of an app are sent, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "OtlpDefinition", deny_unknown_fields)
)]
pub struct OtlpPolicy {
    /// The URL of a receiver of OTLP over HTTP. `/v1/metrics` is added unless the path ends so.
    pub endpoint: String,
    /// The time between two exports.
    #[serde(rename = "interval_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub interval: Duration,
}

/// The variables of an app's environment that hold the headers of a request, the first one that is there: OpenTelemetry's own.
const HEADER_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
/// Headers that are sent.
const HEADERS_MAX: usize = 32;

impl OtlpPolicy {
    pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
    pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
    pub const ENDPOINT_BYTES_MAX: usize = 2048;
    const PATH: &'static str = "/v1/metrics";

    /// Whether metrics may be sent to a URL. It is shown in lists, so nothing in it may be a secret: no password and no query.
    pub fn is_endpoint(url: &str) -> bool {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let Some(rest) = rest else { return false };
        let host = host_in(rest.split('/').next().unwrap_or_default());
        let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@\\".contains(&byte));
        is_plain && host.is_some_and(|host| !host.is_empty()) && url.len() <= Self::ENDPOINT_BYTES_MAX
    }

    /// Where they are posted.
    pub fn url(&self) -> String {
        let endpoint = self.endpoint.trim_end_matches('/');
        let path = if endpoint.ends_with(Self::PATH) { "" } else { Self::PATH };
        format!("{endpoint}{path}")
    }

    /// Whether headers, which may be secrets, can be sent: over https, or to the machine itself.
    pub fn may_carry_headers(&self) -> bool {
        AlertPolicy::is_webhook(&self.endpoint)
    }
}

/// The headers that an app's environment has for the receiver, in OpenTelemetry's form: `name=value,name=value`, with values in percent
/// encoding.
pub fn headers(env: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let text = header_variable(env).map_or("", |(_, text)| text);
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = pairs.map(|(name, value)| {
        let value = percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
        (name.trim().to_owned(), value)
    });
    decoded.filter(|(name, _)| !name.is_empty()).take(HEADERS_MAX).collect()
}

fn header_variable(env: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    HEADER_VARIABLES.iter().find_map(|name| Some((*name, env.get(*name)?.as_str())))
}

/// The variable that has a part which is no header and is not sent. Its text may be a secret.
pub fn unread_headers(env: &BTreeMap<String, String>) -> Option<&'static str> {
    let (name, text) = header_variable(env)?;
    let mut parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let is_header = |part: &str| part.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty());
    parts.any(|part| !is_header(part)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_without_secrets() {
        for good in ["http://localhost:4318", "https://otlp.example.com/otlp", "http://[::1]:4318/v1/metrics"]
        {
            assert!(OtlpPolicy::is_endpoint(good), "{good}");
        }
        let long = format!("http://{}", "a".repeat(OtlpPolicy::ENDPOINT_BYTES_MAX));
        for bad in [
            "",
            "localhost:4318",
            "ftp://x",
            "http://",
            "http://:4318",
            "http:///x",
            "http://127.0.0.1:99999",
            "http://x:",
            "http://x:a/",
            "http://[::1:4318",
            "https://me:secret@x/",
            "https://x/?key=secret",
            "https://x/#a",
            "http://a b",
            "http://x\n",
            &long,
        ] {
            assert!(!OtlpPolicy::is_endpoint(bad), "{bad}");
        }
    }

    #[test]
    fn the_path_is_added_where_it_is_missing() {
        let url = |endpoint: &str| {
            OtlpPolicy { endpoint: endpoint.to_owned(), interval: OtlpPolicy::INTERVAL_DEFAULT }.url()
        };
        assert_eq!(url("http://a:4318"), "http://a:4318/v1/metrics");
        assert_eq!(url("http://a:4318/"), "http://a:4318/v1/metrics");
        assert_eq!(url("https://a/api/v1/otlp"), "https://a/api/v1/otlp/v1/metrics");
        assert_eq!(url("https://a/v1/metrics"), "https://a/v1/metrics");
    }

    #[test]
    fn headers_come_from_the_environment() {
        let of = |pairs: &[(&str, &str)]| {
            headers(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(of(&[]), []);
        assert_eq!(
            of(&[("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D , Authorization=Basic x==,=y,z")]),
            [pair("api-key", "a b="), pair("Authorization", "Basic x==")]
        );
        let both = [("OTEL_EXPORTER_OTLP_HEADERS", "a=1"), ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "b=2")];
        assert_eq!(of(&both), [pair("b", "2")]);
        let unread = |text: &str| unread_headers(&[(HEADER_VARIABLES[1].to_owned(), text.to_owned())].into());
        assert_eq!(unread("a=1, b=2,"), None);
        assert_eq!(unread("api-key: x"), Some("OTEL_EXPORTER_OTLP_HEADERS"));
        assert_eq!(unread("a=1,=y"), Some("OTEL_EXPORTER_OTLP_HEADERS"));
    }
}
