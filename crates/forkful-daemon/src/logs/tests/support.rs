//! A service in a temporary folder, and what it reported.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forkful_api::types::LogStream;
use forkful_core::slot::Generation;
use forkful_os::behalf::{Entry, Find};
use rustix::pipe::{PipeFlags, pipe_with};
use tempfile::TempDir;

use crate::logs::archive_name::{self, Archive};
use crate::logs::service::Options;
use crate::logs::{
    FollowFilter, FollowRequest, Followed, LineStyle, LogLines, LogService, StreamSpec, TailFile,
};

pub(super) struct Bench {
    pub(super) service: LogService,
    pub(super) folder: TempDir,
    reports: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reports);
        let mut options = Options {
            report: Arc::new(move |message: &str| sink.lock().unwrap().push(message.to_owned())),
            // A busy machine is no slow disk.
            disk_wait_max: Duration::from_secs(60),
            ..Options::default()
        };
        change(&mut options);
        let service = LogService::start_with(options).unwrap();
        Self { service, folder: TempDir::new().unwrap(), reports }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A worker's stdout or stderr that goes to `path`; gives the worker's end.
    pub(super) fn worker(&self, pm_id: u32, stream: LogStream, path: &Path) -> File {
        self.attach(spec(pm_id, stream, path))
    }

    pub(super) fn attach(&self, spec: StreamSpec) -> File {
        let (ours, theirs) = pipe();
        self.service.attach(spec, ours);
        theirs.into()
    }

    /// Returns when everything written to the pipes before is in the files.
    pub(super) fn settle(&self) {
        let request = FollowRequest { files: Vec::new(), lines: 0, follow: false, filter: everything() };
        assert_eq!(self.service.subscribe(request).blocking_recv(), None);
    }

    /// The content of a file once everything is in it.
    pub(super) fn content(&self, path: &Path) -> Vec<u8> {
        self.settle();
        fs_err::read(path).unwrap()
    }

    pub(super) fn text(&self, path: &Path) -> String {
        String::from_utf8(self.content(path)).unwrap()
    }

    pub(super) fn reports(&self) -> Vec<String> {
        self.settle();
        self.reports.lock().unwrap().clone()
    }

    /// Last lines and, with `follow`, new ones.
    pub(super) fn subscribe(&self, files: &[&Path], lines: u32, follow: bool) -> LogLines {
        let files = files.iter().map(|path| tail_file(path)).collect();
        self.service.subscribe(FollowRequest { files, lines, follow, filter: everything() })
    }
}

pub(super) fn spec(pm_id: u32, stream: LogStream, path: &Path) -> StreamSpec {
    StreamSpec {
        app: "api".to_owned(),
        pm_id,
        process: Generation(1),
        stream,
        paths: vec![path.to_owned()],
        style: LineStyle::default(),
        rotation: None,
        echo: None,
    }
}

pub(super) fn tail_file(path: &Path) -> TailFile {
    TailFile { app: "api".to_owned(), pm_id: None, stream: LogStream::Out, path: path.to_owned() }
}

pub(super) fn everything() -> FollowFilter {
    FollowFilter { who: Followed::All, stream: None }
}

/// Read end, write end.
pub(super) fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

/// What was set aside of a log, oldest first.
pub(super) fn archives_of(log: &Path) -> Vec<Archive> {
    archive_name::archives_of(&Entry::find(log, Find::TO_READ).unwrap()).unwrap()
}

/// What a log is called when it is set aside.
pub(super) fn archive_path(log: &Path, at_ms: u64) -> PathBuf {
    log.with_file_name(archive_name::archive_name(log.file_name().unwrap(), at_ms))
}

/// Where something that was set aside of a log is.
pub(super) fn path_of(log: &Path, archive: &Archive) -> PathBuf {
    fs_err::canonicalize(log).unwrap().with_file_name(&archive.name)
}
