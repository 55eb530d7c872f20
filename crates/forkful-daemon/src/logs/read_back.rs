//! The thread that reads log files back for those who ask for the last lines: files that were set aside may have to be
//! unpacked, and new lines must not wait for that.

use std::sync::mpsc::Receiver;

use tokio::sync::mpsc::UnboundedSender;

use super::file::Snapshot;
use super::follow::TailFile;
use super::lines::{Chunk, ReadBack};
use super::tail::last_lines;

/// Bytes that one request reads back from all its files together; more than the longest line.
pub(super) const TAIL_BYTES_MAX: usize = 32 << 20;

/// The files of one request, as they were when it came.
#[derive(Debug)]
pub(super) struct BackRequest {
    pub(super) files: Vec<(TailFile, Snapshot)>,
    pub(super) lines: usize,
    pub(super) sender: UnboundedSender<Chunk>,
}

/// Works until nobody can ask any more.
pub(super) fn run(requests: &Receiver<BackRequest>) {
    while let Ok(request) = requests.recv() {
        answer(request);
    }
}

fn answer(request: BackRequest) {
    let BackRequest { files, lines, sender } = request;
    let (mut bytes_left, mut files_left) = (TAIL_BYTES_MAX, files.len());
    for (file, snapshot) in files {
        let share = bytes_left / files_left.max(1);
        files_left -= 1;
        let bytes = match last_lines(snapshot, lines, share) {
            Ok(bytes) => bytes,
            Err(fault) => format!("cannot read the log file {}: {fault}\n", file.path.display()).into_bytes(),
        };
        bytes_left = bytes_left.saturating_sub(bytes.len());
        let TailFile { app, pm_id, stream, .. } = file;
        if !bytes.is_empty() && sender.send(Chunk::Read(ReadBack { app, pm_id, stream, bytes })).is_err() {
            return;
        }
    }
}
