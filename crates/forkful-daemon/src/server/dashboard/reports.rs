//! The lab's reports for the page: the files `*.json` and `*.html` of the one folder that the link was made with. They are sent as
//! text and drawn by the page, which takes them for data of unknown shape.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forkful_os::held_folder::{HeldFile, HeldFolder, Listing};
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::super::refusal::{Json, Refusal};
use super::answers::Denied;

/// The largest report that is sent; `page/src/dashboard/views/Reports.tsx` takes no larger one from a file either.
const BYTES_MAX: u64 = 16 << 20;
/// The newest reports are listed.
const LISTED_MAX: usize = 200;
const LISTED_MORE: usize = LISTED_MAX + 1;

/// The folder of a session; shared by the sessions of a link.
#[derive(Debug, Clone)]
pub(super) struct Reports(Arc<HeldFolder>);

impl Reports {
    /// Opens the folder of a request.
    pub(super) async fn open(folder: PathBuf) -> Result<Self, Refusal> {
        let refused = |folder: &Path, why: &str| {
            Refusal::bad_request(format!("cannot open {}: {why}", folder.display()))
        };
        if !folder.is_absolute() {
            return Err(refused(&folder, "the path of a folder of reports is absolute"));
        }
        let path = folder.clone();
        // A disk may be slow.
        let held = tokio::task::spawn_blocking(move || Self::held(&path)).await;
        held.map_err(io::Error::other).flatten().map_err(|error| refused(&folder, &error.to_string()))
    }

    pub(super) fn held(folder: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(HeldFolder::open(folder)?)))
    }

    /// `GET /api/reports`: the newest first.
    pub(super) async fn list(&self) -> Result<Response, Response> {
        let folder = Arc::clone(&self.0);
        let listed = tokio::task::spawn_blocking(move || listed(&folder)).await;
        match listed.map_err(io::Error::other).flatten() {
            Ok(reports) => Ok(Json(reports).into_response()),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// `GET /api/report?name=…`.
    pub(super) async fn read(&self, name: String) -> Result<Response, Response> {
        if !is_report(&name) {
            return Err(Denied::Path.into_response());
        }
        let folder = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || folder.read(&name, BYTES_MAX)).await;
        match read.map_err(io::Error::other).flatten() {
            // Never as a page of its own.
            Ok(bytes) => Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], bytes).into_response()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Denied::Path.into_response()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let why = format!("the report has more than {} MiB", BYTES_MAX >> 20);
                Err(Refusal::bad_request(why).into_response())
            }
            Err(error) => Err(unreadable(&error)),
        }
    }
}

fn unreadable(error: &io::Error) -> Response {
    Refusal::internal(format!("the reports cannot be read: {error}")).into_response()
}

fn listed(folder: &HeldFolder) -> io::Result<Value> {
    Ok(newest(folder.files(is_report)?))
}

/// The newest files, and a note if there may be others.
fn newest(Listing { mut files, cut_at }: Listing) -> Value {
    let note = match (cut_at, files.len()) {
        (Some(entries), _) => Some(format!(
            "The folder has more than {entries} entries. Only the first {entries} were read, so reports may be missing from this list. \
             Give `forkful dashboard --reports` a folder with fewer files."
        )),
        (None, all @ LISTED_MORE..) => Some(format!("These are the newest {LISTED_MAX} of {all} reports.")),
        (None, _) => None,
    };
    files.sort_unstable_by(|a, b| b.modified_ms.cmp(&a.modified_ms).then_with(|| a.name.cmp(&b.name)));
    files.truncate(LISTED_MAX);
    let report =
        |file: &HeldFile| json!({ "name": file.name, "bytes": file.bytes, "modified_ms": file.modified_ms });
    json!({ "reports": files.iter().map(report).collect::<Vec<_>>(), "note": note })
}

/// Whether a file may be a report, by its name.
fn is_report(name: &str) -> bool {
    let ends = Path::new(name).extension().is_some_and(|ending| ending == "json" || ending == "html");
    ends && !name.starts_with('.') && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_tells_which_reports_it_lacks() {
        let file = |number: u64| HeldFile { name: format!("{number}.json"), bytes: 1, modified_ms: number };
        let listed = |files: u64, cut_at| newest(Listing { files: (0..files).map(file).collect(), cut_at });
        assert_eq!(listed(200, None)["note"], Value::Null);
        let more = listed(201, None);
        assert_eq!(more["note"], "These are the newest 200 of 201 reports.");
        assert_eq!(
            (more["reports"].as_array().unwrap().len(), &more["reports"][0]["name"]),
            (200, &json!("200.json"))
        );
        let cut = listed(1, Some(100_000));
        assert!(
            cut["note"].as_str().unwrap().starts_with("The folder has more than 100000 entries"),
            "{cut}"
        );
    }
}
