//! The history of all workers: an in-memory file with an area for each, which survives the daemon if there is
//! a keeper. `forkful_core::metrics::history` defines the contents of an area.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use forkful_core::metrics::history::{COLUMNS, Query, RINGS_BYTES, Span, read_series};
use forkful_core::metrics::{HEAD_BYTES, Head};
use forkful_core::supervisor::AppId;
use forkful_os::keeper::{Handover, Hold, Keeping, Kept, Kind, Name};
use forkful_os::memory_file;

/// Maximum workers with a history; each needs 365 KiB after a week.
pub(crate) const AREAS_MAX: usize = 128;
const AREA_BYTES: u64 = HEAD_BYTES as u64 + RINGS_BYTES;
/// The name under which the file is kept. A keeper of an earlier version knows its kind.
const NAME: Name = Name { of: 1, ..Name::only(Kind::State) };

/// The file; clones share it.
#[derive(Clone)]
pub(crate) struct History(Option<Rc<Inner>>);

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("History")
    }
}

struct Inner {
    file: Arc<OwnedFd>,
    /// The owner of each area.
    areas: RefCell<Vec<Option<(AppId, u16)>>>,
    /// It was told that there is no more room.
    is_full_told: Cell<bool>,
    _hold: Hold,
}

/// The area of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area(usize);

impl History {
    /// The previous daemon's file, or a new one. Without memory for it there is none, and nothing is stored.
    pub(crate) fn take(handover: &mut Handover) -> Self {
        let keeping = handover.keeping.clone();
        let before = handover.take(NAME).filter(|kept| {
            memory_file::length(&kept.fd).is_ok_and(|length| length as u64 == AREA_BYTES * AREAS_MAX as u64)
        });
        match before {
            Some(Kept { fd, hold, .. }) => Self::of(fd, hold),
            None => Self::new(&keeping),
        }
    }

    pub(crate) fn new(keeping: &Keeping) -> Self {
        match memory_file::create("forkful-history", AREA_BYTES * AREAS_MAX as u64) {
            Ok(file) => {
                let hold = keeping.keep(NAME, &file);
                Self::of(file, hold)
            }
            Err(error) => {
                log_line!("forkful: no history is kept: {error}");
                Self(None)
            }
        }
    }

    fn of(file: OwnedFd, hold: Hold) -> Self {
        let mut head = vec![0; HEAD_BYTES];
        let mut owner = |area: usize| {
            memory_file::read_at(&file, begin_of(area), &mut head).ok()?;
            Head::decode(&head).map(|head| (AppId(head.app), head.slot))
        };
        let areas = (0..AREAS_MAX).map(&mut owner).collect();
        Self(Some(Rc::new(Inner {
            file: Arc::new(file),
            areas: RefCell::new(areas),
            is_full_told: Cell::new(false),
            _hold: hold,
        })))
    }

    /// The area of a worker, with its contents; an empty one if it has none yet. `None` if there is no room.
    pub(crate) fn area(&self, app: AppId, slot: u16) -> Option<(Area, Option<Head>)> {
        let inner = self.0.as_ref()?;
        let mut areas = inner.areas.borrow_mut();
        if let Some(area) = areas.iter().position(|owner| *owner == Some((app, slot))) {
            let mut head = vec![0; HEAD_BYTES];
            memory_file::read_at(&inner.file, begin_of(area), &mut head).ok()?;
            return Some((Area(area), Head::decode(&head)));
        }
        let area = areas.iter().position(Option::is_none)?;
        memory_file::clear(&inner.file, begin_of(area), AREA_BYTES).ok()?;
        areas[area] = Some((app, slot));
        Some((Area(area), None))
    }

    /// A worker has no area: tells it, once for all of them.
    pub(crate) fn tell_full(&self) {
        if self.0.as_ref().is_some_and(|inner| !inner.is_full_told.replace(true)) {
            log_line!(
                "forkful: the history of {AREAS_MAX} workers is recorded, and there is no room for more"
            );
        }
    }

    /// Writes into the rings of an area.
    pub(crate) fn write(&self, area: Area, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(inner) = &self.0 else { return Ok(()) };
        memory_file::write_at(&inner.file, begin_of(area.0) + HEAD_BYTES as u64 + offset, bytes)
    }

    pub(crate) fn write_head(&self, area: Area, head: &Head) -> io::Result<()> {
        let Some(inner) = &self.0 else { return Ok(()) };
        memory_file::write_at(&inner.file, begin_of(area.0), &head.encode())
    }

    /// An app is gone, and its history with it.
    pub(crate) fn forget(&self, app: AppId) {
        let Some(inner) = &self.0 else { return };
        for (area, owner) in inner.areas.borrow_mut().iter_mut().enumerate() {
            if owner.is_some_and(|(of, _)| of == app) {
                // What stays is cleared before the area is used again.
                let _stays = memory_file::clear(&inner.file, begin_of(area), AREA_BYTES);
                *owner = None;
            }
        }
    }

    /// Reads areas later, from any thread.
    pub(crate) fn reader(&self) -> Option<Reader> {
        self.0.as_ref().map(|inner| Reader(Arc::clone(&inner.file)))
    }
}

fn begin_of(area: usize) -> u64 {
    area as u64 * AREA_BYTES
}

/// Series by their names.
pub(crate) type Series = Vec<(&'static str, Vec<Option<f64>>)>;

/// Reads what is written.
#[derive(Debug)]
pub(crate) struct Reader(Arc<OwnedFd>);

impl Reader {
    /// The series of a worker.
    pub(crate) fn read(&self, area: Area, span: &Span, wants: impl Fn(&str) -> bool) -> io::Result<Series> {
        let mut head = vec![0; HEAD_BYTES];
        memory_file::read_at(&self.0, begin_of(area.0), &mut head)?;
        let Some(head) = Head::decode(&head) else { return Ok(Vec::new()) };
        let mut series = Vec::new();
        for (ring, columns) in span.parts() {
            if !COLUMNS[columns.clone()].iter().any(|name| wants(name)) {
                continue;
            }
            let (offset, length) = ring.place();
            let mut bytes = vec![0; length];
            memory_file::read_at(&self.0, begin_of(area.0) + HEAD_BYTES as u64 + offset, &mut bytes)?;
            series.extend(read_series(span, (ring, columns), &bytes, head.ticks[ring.index()], &wants));
        }
        Ok(series)
    }
}

/// What a client wants to see of an app, and where it is.
#[derive(Debug)]
pub struct HistoryOrder {
    pub(crate) app: String,
    pub(crate) reader: Option<Reader>,
    /// The slot, id and area of each worker.
    pub(crate) workers: Vec<(u16, u32, Option<Area>)>,
    pub(crate) now_s: u64,
}

impl HistoryOrder {
    /// Reads it all: up to some megabytes, so not on the loop.
    pub(crate) fn read(
        self,
        query: Query,
        wants: impl Fn(&str) -> bool,
    ) -> io::Result<forkful_api::types::HistoryReply> {
        let span = query.span(self.now_s);
        let mut workers = Vec::new();
        for (slot, pm_id, area) in self.workers {
            let series = match (&self.reader, area) {
                (Some(reader), Some(area)) => reader.read(area, &span, &wants)?,
                _ => Vec::new(),
            };
            let series = series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
            workers.push(forkful_api::types::WorkerHistory { slot, pm_id, series });
        }
        Ok(forkful_api::types::HistoryReply {
            app: self.app,
            from_ms: span.from_s * 1000,
            step_ms: span.step_s * 1000,
            points: span.points,
            workers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_core::metrics::Sample;
    use forkful_core::metrics::history::Recorder;

    #[test]
    fn what_was_written_is_read_and_is_gone_with_its_app() {
        let history = History::new(&Keeping::default());
        let app = AppId(7);
        let (area, head) = history.area(app, 3).unwrap();
        assert_eq!(head, None);
        let mut recorder = Recorder::default();
        for at in 1..=10 {
            let sample = Sample::of(&[("event_loop_utilization", 0.5)]);
            for write in recorder.record(1_000_000 + at, &sample) {
                history.write(area, write.offset, &write.bytes).unwrap();
            }
        }
        let head = Head { app: 7, slot: 3, ticks: recorder.ticks(), ..Head::default() };
        history.write_head(area, &head).unwrap();
        assert_eq!(history.area(app, 3).unwrap(), (area, Some(head.clone())));
        assert_ne!(history.area(app, 4).unwrap().0, area);
        let order = HistoryOrder {
            app: "app".to_owned(),
            reader: history.reader(),
            workers: vec![(3, 0, Some(area)), (9, 1, None)],
            now_s: 1_000_011,
        };
        let reply = order.read(Query::default(), |_| true).unwrap();
        let values = &reply.workers[0].series["event_loop_utilization"];
        assert_eq!((reply.points, values.iter().flatten().count()), (600, 10));
        assert!(reply.workers[1].series.is_empty());
        history.forget(app);
        assert_eq!(history.area(app, 3).unwrap().1, None);
    }

    #[test]
    fn another_daemon_finds_whose_each_area_is() {
        let history = History::new(&Keeping::default());
        let (area, _) = history.area(AppId(1), 0).unwrap();
        let head = Head { app: 1, slot: 0, ticks: [5, 0, 0, 0, 0], ..Head::default() };
        history.write_head(area, &head).unwrap();
        let file = history.0.as_ref().unwrap().file.try_clone().unwrap();
        let next = History::of(file, Hold::default());
        assert_eq!(next.area(AppId(1), 0).unwrap(), (area, Some(head)));
        for slot in 0..AREAS_MAX as u16 {
            next.area(AppId(2), slot);
        }
        assert_eq!(next.area(AppId(3), 0), None, "there is no more room");
        next.forget(AppId(2));
        assert!(next.area(AppId(3), 0).is_some());
    }
}
