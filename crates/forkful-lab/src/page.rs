//! The result page: one HTML file that contains its plots, script and data, and makes no network requests.
//!
//! `page/report.html` is built from `page/` at the root of the repository (`npm run build --prefix page`);
//! this module inserts a JSON document. The document is treated as data: it cannot close its element or
//! become markup.

use std::path::Path;

use serde_json::Value;

const TEMPLATE: &str = include_str!("page/report.html");

/// Titles of documents without a title.
const TITLES: [(&str, &str); 4] =
    [("bench", "Load test"), ("compare", "Comparison"), ("tune", "Tuning"), ("experiment", "Experiment")];

/// The page of a document of `bench`, `compare`, `tune` or `experiment`; the key `kind` says which. The page
/// leaves out keys that are absent or have another type.
pub fn render(document: &Value) -> String {
    let title = escaped_text(&title_of(document));
    let headline = escaped_text(&headline_of(document));
    let data = escaped_json(document);
    let mut page = String::with_capacity(TEMPLATE.len() + title.len() * 2 + headline.len() + data.len());
    let mut rest = TEMPLATE;
    // One pass, so that a placeholder inside an inserted text is not replaced.
    while let Some(at) = rest.find("{{") {
        page.push_str(&rest[..at]);
        let (name, after) = match rest[at + 2..].split_once("}}") {
            Some((name @ ("title" | "headline" | "data"), after)) => (name, after),
            _ => ("", &rest[at + 2..]),
        };
        page.push_str(match name {
            "title" => &title,
            "headline" => &headline,
            "data" => &data,
            _ => "{{",
        });
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Writes the page of a document to a file, atomically.
pub fn write(path: &Path, document: &Value) -> std::io::Result<()> {
    forkful_os::replace::replace(path, 0o666, render(document).as_bytes())
}

fn title_of(document: &Value) -> String {
    let text = |key: &str| document.get(key).and_then(Value::as_str);
    let by_kind = || {
        let kind = text("kind")?;
        TITLES.iter().find(|(name, _)| *name == kind).map(|(_, title)| *title)
    };
    text("title").or_else(by_kind).unwrap_or("Report").to_owned()
}

fn headline_of(document: &Value) -> String {
    let at = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    at("/headline").or_else(|| at("/sentence")).or_else(|| at("/verdict/text")).unwrap_or_default().to_owned()
}

/// JSON that is safe inside HTML: `<`, `>`, `&` and the two line separators that old JavaScript rejects are
/// escaped.
fn escaped_json(document: &Value) -> String {
    document
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn escaped_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The JSON inside a page.
    fn data_of(page: &str) -> &str {
        let begin = page.find(r#"id="report-data">"#).expect("the page has a place for data") + 17;
        let length = page[begin..].find("</script>").expect("the element ends");
        &page[begin..begin + length]
    }

    #[test]
    fn the_document_comes_out_as_it_went_in() {
        let hostile = "</script><script>alert(1)</script><!-- {{data}} {{title}} \u{2028} & ' \" \\ \0";
        let document =
            json!({"kind": "bench", "title": hostile, "headline": hostile, hostile: [hostile, 1.5, null]});
        let page = render(&document);
        let back: Value = serde_json::from_str(data_of(&page)).expect("it is JSON");
        assert_eq!(back, document);
        assert!(!data_of(&page).contains(['<', '>', '&', '\u{2028}']));
    }

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "<img src=x onerror=alert(1)>";
        let page = render(&json!({"title": hostile, "headline": hostile, "command": hostile}));
        assert!(!page.contains("<img"));
        assert!(page.contains("<title>&lt;img src=x onerror=alert(1)&gt;</title>"));
    }

    #[test]
    fn braces_of_the_template_and_of_the_document_stay() {
        let bare = render(&json!({}));
        let braces = |text: &str| text.matches("{{").count();
        assert_eq!(braces(&bare), braces(TEMPLATE) - 4, "four places are filled, no other is touched");
        assert_eq!(braces(&render(&json!({"x": "{{title}}"}))), braces(&bare) + 1);
    }

    #[test]
    fn a_page_asks_no_network_for_anything() {
        let page = render(&json!({"kind": "compare"}));
        assert!(page.contains("default-src 'none'"), "the browser is told to refuse it, too");
        for reference in ["src=\"", "href=\"http", "@import", "url(http"] {
            assert!(!page.contains(reference), "{reference} in the page");
        }
        assert!(page.len() < 150_000, "{} bytes without data", page.len());
    }

    #[test]
    fn titles_follow_the_kind() {
        assert!(render(&json!({"kind": "tune"})).contains("<title>Tuning</title>"));
        assert!(render(&json!(["no", "object"])).contains("<title>Report</title>"));
    }

    #[test]
    fn writing_is_complete_or_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("page.html");
        write(&path, &json!({"kind": "bench"})).expect("it can be written");
        assert!(fs_err::read_to_string(&path).expect("it is there").ends_with("</html>\n"));
        write(&folder.path().join("none/page.html"), &json!({})).expect_err("the folder is missing");
        assert_eq!(fs_err::read_dir(folder.path()).expect("readable").count(), 1, "no temporary file stays");
    }
}
