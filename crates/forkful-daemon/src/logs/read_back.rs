//! The thread that reads log files back for those who ask for the last lines: files that were set aside may have to be
//! unpacked, and new lines must not wait for that.

use std::sync::mpsc::Receiver;

use forkful_api::types::LogStream;
use tokio::sync::mpsc::UnboundedSender;

use super::file::Snapshot;
use super::follow::{OUR_NAME, TailFile};
use super::lines::{Chunk, ReadBack};
use super::order::{Mark, parts};
use super::stream::lines_of;
use super::tail::last_lines;

/// Bytes that one request reads back from all its files together; more than the longest line.
pub(super) const TAIL_BYTES_MAX: usize = 32 << 20;

/// How a time stands before a line, in UTC.
const STAMP_FORM: &[u8] = b"0000-00-00T00:00:00.000Z: ";

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
        // Nobody waits for it any more.
        if request.sender.is_closed() {
            continue;
        }
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
    if let Some(by_stamp) = in_order_of_stamps(&unordered) {
        unordered = by_stamp;
    } else if unordered.windows(2).any(|two| two[0].app == two[1].app) {
        unordered.insert(0, note("older lines come file by file, for their order is not known"));
    }
    ordered.sort_by_key(|(number, _)| *number);
    unordered.into_iter().chain(ordered.into_iter().map(|(_, read)| read)).collect()
}

/// The same lines in the order of the times that stand before them, if one stands before each (`time: true`).
fn in_order_of_stamps(reads: &[ReadBack]) -> Option<Vec<ReadBack>> {
    let mut lines = Vec::new();
    for (number, read) in reads.iter().enumerate() {
        for line in lines_of(&read.bytes) {
            lines.push((line.get(..STAMP_FORM.len()).filter(|stamp| is_stamp(stamp))?, number, line));
        }
    }
    // This form of time sorts as text. Stable, so that lines of one file stay as they are.
    lines.sort_by_key(|(stamp, ..)| *stamp);
    let runs = lines.chunk_by(|(_, one, _), (_, other, _)| one == other).map(|run| {
        let ReadBack { app, pm_id, stream, at_ms, .. } = &reads[run[0].1];
        let bytes = run.iter().map(|(.., line)| *line).collect::<Vec<_>>().concat();
        ReadBack { app: app.clone(), pm_id: *pm_id, stream: *stream, at_ms: *at_ms, bytes }
    });
    Some(runs.collect())
}

fn is_stamp(bytes: &[u8]) -> bool {
    let fits = |(found, form): (&u8, &u8)| if *form == b'0' { found.is_ascii_digit() } else { found == form };
    bytes.iter().zip(STAMP_FORM).all(fits)
}

/// A line of our own among those that are read back.
pub(super) fn note(text: &str) -> ReadBack {
    let (app, stream, bytes) = (OUR_NAME.to_owned(), LogStream::Err, format!("{text}\n").into_bytes());
    ReadBack { app, pm_id: None, stream, at_ms: None, bytes }
}
