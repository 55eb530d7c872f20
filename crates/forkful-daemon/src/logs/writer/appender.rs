//! Appends batches of lines to one file, and notes which of their lines are lost.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use forkful_core::logs::LogRotation;

use super::fault_text;
use crate::logs::alerts::Alerts;
use crate::logs::archivist::Notice;
use crate::logs::file::{Appended, LogFile, Now, Surroundings, WriteFault};
use crate::logs::order::{Mark, Order};
use crate::logs::space::Space;
use crate::logs::stream::{Batch, count_lines};

/// A file and who writes to it.
pub(super) struct Shared {
    pub(super) file: LogFile,
    pub(super) streams: usize,
    /// The app of the stream that began last.
    pub(super) app: Box<str>,
    pub(super) rotation: Option<LogRotation>,
    /// Since it could not be written, which was told.
    pub(super) lost_lines: Option<u64>,
    /// Why it cannot be written, since it cannot.
    pub(super) fault: Option<Arc<str>>,
}

/// A batch and where in the rendered bytes its lines are, if they are not taken as they are.
pub(super) struct Piece<'a> {
    pub(super) batch: &'a Batch,
    /// Counted over all files.
    number: u64,
    rendered: Option<Range<usize>>,
}

impl<'a> Piece<'a> {
    pub(super) fn new(batch: &'a Batch, number: u64, rendered: &mut Vec<u8>) -> Self {
        let start = rendered.len();
        let stream = &batch.stream;
        let is_rendered = !stream.paths.is_empty() && stream.style.render(batch, rendered);
        Self { batch, number, rendered: is_rendered.then_some(start..rendered.len()) }
    }
}

/// What appending to any file takes.
pub(super) struct Appender<'a> {
    pub(super) space: &'a mut Space,
    pub(super) alerts: &'a mut Alerts,
    pub(super) rendered: &'a [u8],
    pub(super) archivist: &'a Sender<Notice>,
    pub(super) now: Now,
}

impl Appender<'_> {
    /// Appends batches to one file; counts the lines that could not be written.
    pub(super) fn append(
        &mut self,
        shared: &mut Shared,
        order: &mut Order,
        group: &[(&Arc<Path>, &Piece<'_>)],
    ) {
        let path = group[0].0;
        let mut slices = Vec::with_capacity(2 * group.len());
        for (_, piece) in group {
            match &piece.rendered {
                Some(range) => slices.push(&self.rendered[range.clone()]),
                None => slices.extend(piece.batch.parts()),
            }
        }
        let (mut set_aside, mut incidents) = (0, Vec::new());
        let mut around =
            Surroundings { space: self.space, set_aside: &mut set_aside, incidents: &mut incidents };
        let outcome = shared.file.append(&slices, self.now, &mut around);
        if let Some(entry) = shared.file.placed_anew() {
            let _sent = self.archivist.send(Notice::Placed { log: Arc::clone(path), entry: entry.clone() });
        }
        if set_aside > 0 {
            // It ends only after us.
            let _sent = self.archivist.send(Notice::SetAside { app: shared.app.clone() });
        }
        for incident in &incidents {
            self.alerts.incident(path, incident, self.now.instant);
        }
        if shared.file.take_foreign() {
            order.forget();
        }
        let mut kept_lines = match outcome {
            Ok(_) => u64::MAX,
            Err(ref fault) => lines_within(&slices, fault.kept),
        };
        self.note_outcome(shared, path, outcome);
        for (_, piece) in group {
            let Piece { batch, number, .. } = **piece;
            let lines = batch.line_count();
            let kept = lines.min(kept_lines);
            kept_lines -= kept;
            let stream = &batch.stream;
            let (pm_id, at_ms) = (stream.pm_id, batch.at_ms);
            let lines_kept = u32::try_from(kept).unwrap_or(u32::MAX);
            order.add(Mark { number, at_ms, lines: lines_kept, pm_id, stream: stream.stream });
            match &shared.fault {
                None => stream.counters.clear_fault(path),
                Some(fault) => stream.counters.set_fault(path, fault),
            }
            if kept < lines {
                stream.counters.add_dropped(lines - kept);
                if let Some(lost) = &mut shared.lost_lines {
                    *lost += lines - kept;
                }
            }
        }
        order.ends_at(shared.file.extent());
    }

    /// Tells that a file cannot be written, and that it can again.
    fn note_outcome(&mut self, shared: &mut Shared, path: &Arc<Path>, outcome: Result<Appended, WriteFault>) {
        match outcome {
            Ok(Appended::AsUsual) => {}
            Ok(Appended::Again) => {
                shared.fault = None;
                if let Some(lost) = shared.lost_lines.take() {
                    self.alerts.written_again(path, lost);
                }
            }
            Err(fault) => {
                if let Some(cause) = &fault.report {
                    shared.fault = Some(fault_text(path, cause));
                    if self.alerts.not_written(path, cause, self.now.instant) {
                        shared.lost_lines = Some(0);
                    }
                }
            }
        }
    }
}

fn lines_within(slices: &[&[u8]], mut bytes: usize) -> u64 {
    let mut lines = 0;
    for slice in slices {
        let inside = slice.len().min(bytes);
        lines += count_lines(&slice[..inside]);
        bytes -= inside;
    }
    lines
}
