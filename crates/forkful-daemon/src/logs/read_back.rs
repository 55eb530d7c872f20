//! The thread that reads log files back for those who ask for the last lines: files that were set aside may have to be
//! unpacked, and new lines must not wait for that.

use std::sync::mpsc::Receiver;

use forkful_api::types::LogStream;
use tokio::sync::mpsc::UnboundedSender;

use super::file::Snapshot;
use super::follow::{OUR_NAME, TailFile};
use super::lines::{Chunk, ReadBack};
use super::order::{Mark, parts};
use super::tail::last_lines;

/// Bytes that one request reads back from all its files together; more than the longest line.
pub(super) const TAIL_BYTES_MAX: usize = 32 << 20;

/// A file of a request, as it was when the request came.
#[derive(Debug)]
pub(super) struct BackFile {
    pub(super) file: TailFile,
    pub(super) snapshot: Snapshot,
    /// Of its last lines.
    pub(super) marks: Vec<Mark>,
}

/// The files of one request.
#[derive(Debug)]
pub(super) struct BackRequest {
    pub(super) files: Vec<BackFile>,
    pub(super) lines: usize,
    pub(super) sender: UnboundedSender<Chunk>,
}

/// Works until nobody can ask any more.
pub(super) fn run(requests: &Receiver<BackRequest>) {
    while let Ok(request) = requests.recv() {
        for read in answer(request.files, request.lines) {
            if request.sender.send(Chunk::Read(read)).is_err() {
                break;
            }
        }
    }
}

/// The lines of all files: first those whose order is not known, file by file, and then the others in their order.
fn answer(files: Vec<BackFile>, lines: usize) -> Vec<ReadBack> {
    let (mut bytes_left, mut files_left) = (TAIL_BYTES_MAX, files.len());
    let (mut unordered, mut ordered): (Vec<ReadBack>, Vec<(u64, ReadBack)>) = (Vec::new(), Vec::new());
    for BackFile { file, snapshot, marks } in files {
        let share = bytes_left / files_left.max(1);
        files_left -= 1;
        let TailFile { app, pm_id, stream, path } = file;
        let bytes = match last_lines(snapshot, lines, share) {
            Ok(bytes) => bytes,
            Err(fault) => {
                let line = format!("cannot read the log file {}: {fault}\n", path.display());
                unordered.push(ReadBack { app, pm_id, stream, at_ms: None, bytes: line.into_bytes() });
                continue;
            }
        };
        bytes_left = bytes_left.saturating_sub(bytes.len());
        for (mark, range) in parts(&bytes, &marks) {
            let (app, bytes) = (app.clone(), bytes[range].to_vec());
            match mark {
                Some(Mark { number, at_ms, pm_id, stream, .. }) => {
                    let (pm_id, at_ms) = (Some(pm_id), Some(at_ms));
                    ordered.push((number, ReadBack { app, pm_id, stream, at_ms, bytes }));
                }
                None => unordered.push(ReadBack { app, pm_id, stream, at_ms: None, bytes }),
            }
        }
    }
    if unordered.windows(2).any(|two| two[0].app == two[1].app) {
        unordered.insert(0, note("older lines come file by file, for their order is not known"));
    }
    ordered.sort_by_key(|(number, _)| *number);
    unordered.into_iter().chain(ordered.into_iter().map(|(_, read)| read)).collect()
}

/// A line of our own among those that are read back.
pub(super) fn note(text: &str) -> ReadBack {
    let (app, stream, bytes) = (OUR_NAME.to_owned(), LogStream::Err, format!("{text}\n").into_bytes());
    ReadBack { app, pm_id: None, stream, at_ms: None, bytes }
}
