//! A CPU profile as one HTML page: a flame graph, and a table of the hottest functions that says the same. Nothing is loaded from elsewhere.
//!
//! **Invariant:** names and addresses of a profile come from the app and are hostile: they are text in the table, escaped JSON in the data, and set as
//! text by the script. The page's policy forbids everything that is not the page's own.

use std::fmt::Write as _;

use forkful_core::profile::{CpuProfile, Frame, FunctionTime, Functions, Origin};
use serde_json::json;

use super::format;

const TEMPLATE: &str = include_str!("flame/page.html");
const STYLE: &str = include_str!("flame/style.css");
const SCRIPT: &str = include_str!("flame/script.js");

/// Calls that take less than this share of the busy time are left out: they would be narrower than a pixel.
const SHARE_MIN: f64 = 0.0005;
/// Rows of the graph.
const DEPTH_MAX: usize = 500;
/// Rows of the table.
const ROWS_MAX: usize = 100;

/// What a page is about.
pub(crate) struct Subject<'a> {
    pub(crate) app: &'a str,
    pub(crate) worker: u32,
    /// The folder of the app, which is left out of the addresses of files.
    pub(crate) root: &'a str,
    /// For people.
    pub(crate) taken_at: &'a str,
    /// Any text that the profile cannot know: what the page permits itself to run has it.
    pub(crate) nonce: &'a str,
}

/// The page.
pub(crate) fn page(subject: &Subject<'_>, profile: &CpuProfile, functions: &Functions) -> String {
    let title = format::visible(&format!("CPU profile of {}, worker {}", subject.app, subject.worker));
    let seconds = profile.total_us() as f64 / 1e6;
    let busy_us = profile.busy_us();
    let of_all = |part: u64| share(part, profile.total_us()) * 100.0;
    let about = format!(
        "Taken {}, {seconds:.1} s, {} samples: {:.0} % idle, {:.1} % garbage collection, {:.1} % outside of JavaScript.",
        subject.taken_at,
        profile.samples,
        of_all(functions.idle_us),
        of_all(functions.garbage_collection_us),
        of_all(functions.program_us),
    );
    let rows = functions.hottest.iter().take(ROWS_MAX).map(|time| row(time, profile, subject.root, busy_us));
    let parts = [
        ("@NONCE@", escaped(subject.nonce)),
        ("@TITLE@", escaped(&title)),
        ("@ABOUT@", escaped(&about)),
        ("@STYLE@", STYLE.to_owned()),
        ("@ROWS@", rows.collect()),
        ("@DATA@", data(profile, subject.root)),
        ("@SCRIPT@", SCRIPT.to_owned()),
    ];
    filled(TEMPLATE, &parts)
}

/// A template with its places filled. What is filled in is not looked at again.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('@') {
        let (before, from) = rest.split_at(at);
        page.push_str(before);
        match parts.iter().find(|(place, _)| from.starts_with(place)) {
            Some((place, text)) => {
                page.push_str(text);
                rest = &from[place.len()..];
            }
            None => {
                page.push('@');
                rest = &from[1..];
            }
        }
    }
    page.push_str(rest);
    page
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn row(time: &FunctionTime, profile: &CpuProfile, root: &str, busy_us: u64) -> String {
    let frame = &profile.frames[time.frame];
    let mut row = "<tr>".to_owned();
    for us in [time.charged_us, time.own_us, time.total_us] {
        // A String takes everything.
        let _ = write!(row, "<td>{:.1} %</td>", share(us, busy_us) * 100.0);
    }
    for text in [
        format::visible(frame.shown_name()),
        format::visible(&frame.place(root)),
        whose(frame.origin()).to_owned(),
    ] {
        let _ = write!(row, "<td>{}</td>", escaped(&text));
    }
    row.push_str("</tr>\n");
    row
}

fn whose(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "the app",
        Origin::Library => "a library",
        Origin::Forkful => "Forkful",
        Origin::Node => "Node.js",
        Origin::Native => "built in",
    }
}

/// Calls and functions as JSON that can stand in a page.
fn data(profile: &CpuProfile, root: &str) -> String {
    let busy_us = profile.busy_us();
    let mut frames: Vec<serde_json::Value> = Vec::new();
    let mut frame_places = vec![None; profile.frames.len()];
    let mut nodes: Vec<serde_json::Value> = Vec::new();
    let mut places: Vec<Option<(usize, usize)>> = vec![None; profile.nodes.len()];
    for (at, node) in profile.nodes.iter().enumerate() {
        let frame = &profile.frames[node.frame];
        let parent = match node.parent {
            None => None,
            Some(parent) => match places[parent] {
                Some(place) => Some(place),
                None => continue,
            },
        };
        let depth = parent.map_or(0, |(_, depth)| depth + 1);
        let is_idle = frame.url.is_empty() && frame.name == "(idle)";
        if is_idle || depth >= DEPTH_MAX || node.parent.is_some() && share(node.total_us, busy_us) < SHARE_MIN
        {
            continue;
        }
        let place = *frame_places[node.frame].get_or_insert_with(|| {
            frames.push(frame_data(frame, root));
            frames.len() - 1
        });
        let total_us = if node.parent.is_none() { busy_us } else { node.total_us };
        let parent_place = parent.map_or(-1, |(place, _)| place as i64);
        nodes.push(json!([parent_place, place, total_us, node.own_us]));
        places[at] = Some((nodes.len() - 1, depth));
    }
    let json = json!({ "frames": frames, "nodes": nodes }).to_string();
    // Nothing in it can end the element or begin another one.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn frame_data(frame: &Frame, root: &str) -> serde_json::Value {
    let origin = match frame.origin() {
        Origin::Own => 0,
        Origin::Library => 1,
        Origin::Node => 2,
        Origin::Native => 3,
        Origin::Forkful => 4,
    };
    json!([format::visible(frame.shown_name()), format::visible(&frame.place(root)), origin])
}

/// As text of a page, or the value of an attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>&\"'@SCRIPT@\u{202e}\u{7}";

    fn hostile() -> CpuProfile {
        let json = json!({
            "nodes": [
                { "id": 1, "callFrame": { "functionName": "(root)", "url": "", "lineNumber": -1 }, "children": [2, 3] },
                { "id": 2, "callFrame": { "functionName": HOSTILE, "url": HOSTILE, "lineNumber": 4 } },
                { "id": 3, "callFrame": { "functionName": "(idle)", "url": "", "lineNumber": -1 } },
            ],
            "startTime": 0, "endTime": 1000, "samples": [2, 3], "timeDeltas": [0, 400],
        });
        CpuProfile::parse(json.to_string().as_bytes()).unwrap()
    }

    fn made() -> String {
        let profile = hostile();
        let subject = Subject { app: HOSTILE, worker: 0, root: "/srv", taken_at: "then", nonce: "n0nce" };
        page(&subject, &profile, &Functions::of(&profile))
    }

    #[test]
    fn hostile_names_are_text_in_every_place() {
        let page = made();
        assert!(!page.contains("<img") && !page.contains("onerror=alert(1)>"), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches(SCRIPT).count(), 1, "a name is no place of the template");
        assert!(!page.contains('\u{202e}') && !page.contains('\u{7}'));
        assert!(page.contains("&lt;/script&gt;&lt;img"));
    }

    #[test]
    fn the_data_has_the_calls_without_idle_time() {
        let page = made();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["nodes"], json!([[-1, 0, 400, 0], [0, 1, 400, 400]]));
        assert_eq!(data["frames"][0], json!(["(root)", "", 3]));
        assert!(data["frames"][1][0].as_str().unwrap().starts_with("</script><img src=x"));
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = made();
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url("));
        for place in ["@NONCE@", "@STYLE@", "@DATA@", "@ROWS@", "@ABOUT@", "@TITLE@"] {
            assert!(!page.contains(place), "{place}");
        }
    }
}
