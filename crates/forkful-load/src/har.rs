//! Reads a HAR file (HTTP Archive 1.2, saved by the network panels of browsers and by proxies) as a list of
//! requests: those to one server, in recorded order. Answers and timings are ignored. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::{Request, Url};

/// Headers that belong to the recorded connection and not to the request.
const HEADERS_OF_CONNECTIONS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];

/// The requests of a file that a load can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub requests: Vec<Request>,
    /// Requests of other servers.
    pub elsewhere: usize,
    /// Entries that are not plain HTTP requests: data URLs, upgrades of a connection.
    pub unusable: usize,
}

/// Why a text is not a HAR file.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    #[error("it is not a HAR file")]
    Form(#[source] serde_json::Error),
    #[error("entry {number} has a body that is not valid base64")]
    Body { number: usize },
    #[error("it has no request of HTTP")]
    Empty,
}

#[derive(Deserialize)]
struct File {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Recorded,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    method: String,
    url: String,
    headers: Option<Vec<Pair>>,
    post_data: Option<Body>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    value: Option<String>,
}

/// Recorders write `null` for what they leave out, or leave it out.
#[derive(Deserialize)]
struct Body {
    text: Option<String>,
    /// `base64`, if the recorder sets it.
    encoding: Option<String>,
    params: Option<Vec<Parameter>>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    value: Option<String>,
}

/// Editors and PowerShell write it at the beginning of a file; it is no part of the JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The recorded requests to one server: the server of the first request. With `to`, they are sent to that
/// server instead.
pub fn read(text: &[u8], to: Option<&Url>) -> Result<Recording, HarError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let file: File = serde_json::from_slice(text).map_err(HarError::Form)?;
    let mut recording = Recording { requests: Vec::new(), elsewhere: 0, unusable: 0 };
    let mut origin: Option<String> = None;
    for (number, entry) in (1..).zip(file.log.entries) {
        let Some(url) = usable(&entry.request) else {
            recording.unusable += 1;
            continue;
        };
        if *origin.get_or_insert_with(|| url.origin()) != url.origin() {
            recording.elsewhere += 1;
            continue;
        }
        recording.requests.push(request(entry.request, url, to).ok_or(HarError::Body { number })?);
    }
    if recording.requests.is_empty() {
        return Err(HarError::Empty);
    }
    Ok(recording)
}

/// The URL of a recorded request, if it can be sent.
fn usable(recorded: &Recorded) -> Option<Url> {
    let mut headers = recorded.headers.iter().flatten();
    let is_upgrade = headers.any(|header| header.name.eq_ignore_ascii_case("upgrade"));
    let is_tunnel = recorded.method.eq_ignore_ascii_case("connect");
    let is_http = recorded.url.contains("://");
    if is_upgrade || is_tunnel || !is_http { None } else { Url::parse(&recorded.url).ok() }
}

fn request(recorded: Recorded, mut url: Url, to: Option<&Url>) -> Option<Request> {
    if let Some(to) = to {
        (url.tls, url.port) = (to.tls, to.port);
        url.host.clone_from(&to.host);
        url.userinfo.clone_from(&to.userinfo);
    }
    let is_kept = |name: &str| {
        !name.starts_with(':') && !HEADERS_OF_CONNECTIONS.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let headers = recorded.headers.into_iter().flatten().filter(|header| is_kept(&header.name));
    Some(Request {
        method: recorded.method,
        headers: headers.map(|header| (header.name, header.value.unwrap_or_default())).collect(),
        body: recorded.post_data.map_or(Some(Vec::new()), body)?,
        ..Request::to(url)
    })
}

fn body(body: Body) -> Option<Vec<u8>> {
    let text = body.text.unwrap_or_default();
    if body.encoding.as_deref() == Some("base64") {
        return STANDARD.decode(text).ok();
    }
    let params = body.params.unwrap_or_default();
    if !text.is_empty() || params.is_empty() {
        return Some(text.into_bytes());
    }
    // Some recorders save only the fields of a form.
    let encoded = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let value = |field: &Parameter| encoded(field.value.as_deref().unwrap_or_default());
    let pairs = params.iter().map(|field| format!("{}={}", encoded(&field.name), value(field)));
    Some(pairs.collect::<Vec<_>>().join("&").into_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(method: &str, url: &str, more: serde_json::Value) -> serde_json::Value {
        let mut request = json!({ "method": method, "url": url, "httpVersion": "HTTP/2", "headers": [] });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "request": request, "response": {}, "time": 1.5 })
    }

    fn told(entries: &[serde_json::Value], to: Option<&str>) -> Vec<String> {
        let text = json!({ "log": { "version": "1.2", "entries": entries } }).to_string();
        let to = to.map(|url| Url::parse(url).unwrap());
        let recording = read(text.as_bytes(), to.as_ref()).unwrap();
        let mut told: Vec<String> = recording
            .requests
            .iter()
            .map(|request| {
                let headers: Vec<String> =
                    request.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let body = String::from_utf8_lossy(&request.body);
                format!("{} {} {headers:?} {body}", request.method, request.url)
            })
            .collect();
        told.push(format!("{} elsewhere, {} unusable", recording.elsewhere, recording.unusable));
        told
    }

    #[test]
    fn the_requests_of_the_first_server_are_sent_as_they_were_recorded() {
        let headers = json!({ "headers": [
            { "name": ":authority", "value": "shop.test" },
            { "name": "Host", "value": "shop.test" },
            { "name": "content-length", "value": "3" },
            { "name": "accept", "value": "text/html" },
        ]});
        let upgrade = json!({ "headers": [{ "name": "Upgrade", "value": "websocket" }] });
        let entries = [
            entry("GET", "data:text/plain,x", json!({})),
            entry("GET", "https://shop.test/?q={id}#top", headers),
            entry("GET", "https://cdn.test/app.js", json!({})),
            entry(
                "POST",
                "https://shop.test/buy",
                json!({ "postData": { "mimeType": "text/plain", "text": "a=1" } }),
            ),
            entry(
                "POST",
                "https://shop.test/up",
                json!({ "postData": { "text": "YmlnIQ==", "encoding": "base64" } }),
            ),
            entry(
                "POST",
                "https://shop.test/form",
                json!({ "postData": { "params": [{ "name": "a b", "value": "1&2" }] } }),
            ),
            entry("GET", "https://shop.test/ws", upgrade),
            entry("GET", "wss://shop.test/ws", json!({})),
        ];
        assert_eq!(
            told(&entries, None),
            [
                r#"GET https://shop.test/?q={id} ["accept=text/html"] "#,
                "POST https://shop.test/buy [] a=1",
                "POST https://shop.test/up [] big!",
                "POST https://shop.test/form [] a%20b=1%262",
                "1 elsewhere, 3 unusable",
            ]
        );
        let here = told(&entries, Some("http://127.0.0.1:3000/ignored"));
        assert_eq!(here[1], "POST http://127.0.0.1:3000/buy [] a=1");
    }

    #[test]
    fn a_file_with_a_byte_order_mark_and_nulls_is_read() {
        let nulls = [
            json!({ "headers": null, "postData": null }),
            json!({ "headers": [{ "name": "x-empty", "value": null }], "postData": { "text": null, "params": null } }),
            json!({ "postData": { "text": null, "encoding": null, "params": [{ "name": "a", "value": null }] } }),
        ];
        let entries = nulls.map(|more| entry("POST", "http://h/", more));
        let text = format!("\u{feff}{}", json!({ "log": { "entries": entries } }));
        let found = read(text.as_bytes(), None).unwrap().requests;
        assert_eq!(found[1].headers, [("x-empty".to_owned(), String::new())]);
        let bodies: Vec<&[u8]> = found.iter().map(|request| request.body.as_slice()).collect();
        assert_eq!(bodies, [&b""[..], b"", b"a="]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let refused = |text: &str| read(text.as_bytes(), None).unwrap_err().to_string();
        assert_eq!(refused("GET /"), "it is not a HAR file");
        assert_eq!(refused(r#"{"log":{}}"#), "it is not a HAR file");
        assert_eq!(refused(r#"{"log":{"entries":[]}}"#), "it has no request of HTTP");
        let entries =
            [entry("POST", "http://h/", json!({ "postData": { "text": "?", "encoding": "base64" } }))];
        let text = json!({ "log": { "entries": entries } }).to_string();
        assert_eq!(refused(&text), "entry 1 has a body that is not valid base64");
    }
}
