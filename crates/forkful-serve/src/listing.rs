//! The listing of a directory without an index page.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::root::Entry;

/// Characters that must be escaped in a link.
const IN_LINK: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b':')
    .add(b'\\')
    .add(b'`');

/// A page with a link to each entry. `path` is the path on the site, with a trailing slash.
pub(crate) fn page(path: &str, entries: &[Entry]) -> String {
    let title = escaped(path);
    let mut rows = String::new();
    if path != "/" {
        rows.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for entry in entries {
        let slash = if entry.is_file { "" } else { "/" };
        let size =
            if entry.is_file { format!(" <small>{} bytes</small>", entry.bytes) } else { String::new() };
        rows.push_str(&format!(
            "<li><a href=\"{}{slash}\">{}{slash}</a>{size}</li>\n",
            utf8_percent_encode(&entry.name, IN_LINK),
            escaped(&entry.name)
        ));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>:root {{ color-scheme: light dark; font-family: system-ui }}</style>\n\
         <h1>{title}</h1>\n<ul>\n{rows}</ul>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup_and_no_other_links() {
        let file = |name: &str| Entry { is_file: true, name: name.to_owned(), bytes: 3 };
        let text = page(
            "/a&b/",
            &[file("<script>.html"), file("javascript:x"), file("100% #1?.txt"), file(r"\\evil.com")],
        );
        assert!(text.contains("<h1>/a&amp;b/</h1>"), "{text}");
        assert!(
            text.contains("<a href=\"%3Cscript%3E.html\">&lt;script&gt;.html</a> <small>3 bytes</small>"),
            "{text}"
        );
        assert!(text.contains("href=\"javascript%3Ax\""), "{text}");
        // A browser reads a backslash as a slash, and two of them begin the name of another host.
        assert!(text.contains("href=\"%5C%5Cevil.com\""), "{text}");
        assert!(text.contains("href=\"100%25%20%231%3F.txt\""), "{text}");
    }
}
