//! The files of incidents: one for each, `incidents/17.json`, for the daemon's user alone. Each is written whole or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use forkful_api::incidents::{Incident, IncidentSummary};
use forkful_core::incidents::{Entry, surplus};
use forkful_os::replace::draft;

/// A file that holds more is not of ours: an excerpt of stderr has 20 lines of 1 KiB.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Incidents that could not be written and are kept in memory.
const UNWRITTEN_MAX: usize = 16;
/// Numbers that are tried when files of another daemon have them already.
const TRIES_MAX: u32 = 100;

/// See the module's documentation.
pub(super) struct Shelf {
    folder: PathBuf,
    kept: BTreeMap<u64, Kept>,
    /// Those that could not be written, the oldest first.
    unwritten: VecDeque<Incident>,
    last: u64,
    /// It was told that they cannot be written.
    is_told: bool,
}

struct Kept {
    summary: IncidentSummary,
    bytes: u64,
}

impl Shelf {
    /// With the incidents of earlier daemons. What cannot be read is left out.
    pub(super) fn open(folder: PathBuf) -> Self {
        Self::begin(folder, |draft| {
            // Of a daemon that was killed while it wrote.
            let _stays = fs_err::remove_file(draft);
        })
    }

    /// To look at the incidents of earlier daemons; changes nothing.
    pub(super) fn look(folder: PathBuf) -> Self {
        Self::begin(folder, |_draft| {})
    }

    fn begin(folder: PathBuf, on_draft: impl Fn(&Path)) -> Self {
        let mut kept = BTreeMap::new();
        let names = fs_err::read_dir(&folder).into_iter().flatten().flatten();
        for path in names.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') {
                on_draft(&path);
            } else if let Some(id) = id_of(&name)
                && let Ok((incident, bytes)) = read(&path)
                && incident.summary.id == id
            {
                kept.insert(id, Kept { summary: incident.summary, bytes });
            }
        }
        let last = kept.keys().next_back().copied().unwrap_or(0);
        Self { folder, kept, unwritten: VecDeque::new(), last, is_told: false }
    }

    /// Gives an incident its number and writes it; the oldest ones go where there are too many.
    pub(super) fn keep(&mut self, mut incident: Incident) -> Incident {
        match self.write(&mut incident) {
            Ok(bytes) => {
                self.is_told = false;
                let summary = incident.summary.clone();
                self.kept.insert(summary.id, Kept { summary, bytes });
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    log_line!("forkful: an incident cannot be written: {error}");
                }
                if self.unwritten.len() == UNWRITTEN_MAX {
                    self.unwritten.pop_front();
                }
                self.unwritten.push_back(incident.clone());
            }
        }
        let entries: Vec<Entry<'_>> = self
            .kept
            .iter()
            .map(|(id, Kept { summary, bytes })| Entry {
                id: *id,
                app: &summary.app,
                bytes: *bytes,
                is_fault: summary.kind.is_fault(),
            })
            .collect();
        for id in surplus(&entries) {
            let _gone = fs_err::remove_file(self.path(id));
            self.kept.remove(&id);
        }
        incident
    }

    /// Gives it the next number that no file has.
    fn write(&mut self, incident: &mut Incident) -> io::Result<u64> {
        let mut tries = 0;
        loop {
            self.last += 1;
            // First, because an incident that cannot be written has a number, too.
            incident.summary.id = self.last;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let text = serde_json::to_vec(&incident)?;
            let path = self.path(self.last);
            match draft(&path, 0o600, &text)?.persist_noclobber(&path) {
                Ok(_) => return Ok(text.len() as u64),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => return Err(error.error),
            }
        }
    }

    /// All of them, the oldest first.
    pub(super) fn summaries(&self) -> impl Iterator<Item = &IncidentSummary> {
        let unwritten = self.unwritten.iter().map(|incident| (incident.summary.id, &incident.summary));
        let written = self.kept.iter().map(|(id, kept)| (*id, &kept.summary));
        written.chain(unwritten).collect::<BTreeMap<_, _>>().into_values()
    }

    /// One of them as a whole.
    pub(super) fn read(&self, id: u64) -> Option<Incident> {
        let unwritten = || self.unwritten.iter().find(|incident| incident.summary.id == id).cloned();
        let kept = self.kept.contains_key(&id).then(|| read(&self.path(id)).ok()).flatten();
        kept.map(|(incident, _)| incident).or_else(unwritten)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

fn id_of(name: &str) -> Option<u64> {
    name.strip_suffix(".json")?.parse().ok()
}

fn read(path: &Path) -> io::Result<(Incident, u64)> {
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((parse(&bytes)?, bytes.len() as u64))
}

/// The contents of a file.
pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Incident> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use forkful_api::incidents::IncidentKind;

    use super::*;

    fn incident(app: &str) -> Incident {
        let summary = IncidentSummary {
            id: 0,
            at_ms: 1,
            kind: IncidentKind::Crash,
            app: app.to_owned(),
            pm_id: Some(0),
            reason: "exit code 1".to_owned(),
            next: None,
        };
        let (end, metrics) = (None, BTreeMap::new());
        Incident {
            summary,
            end,
            stderr_tail: vec!["Error: no".to_owned()],
            is_uncaught: false,
            hint: None,
            metrics,
        }
    }

    fn ids(shelf: &Shelf) -> Vec<u64> {
        shelf.summaries().map(|summary| summary.id).collect()
    }

    #[test]
    fn another_daemon_finds_what_was_kept_and_counts_on() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("incidents");
        let mut shelf = Shelf::open(folder.clone());
        assert_eq!(ids(&shelf), [0_u64; 0]);
        let kept = shelf.keep(incident("api")).summary;
        assert_eq!(shelf.keep(incident("api")).summary.id, 2);
        let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("1.json"))), (0o700, 0o600));
        fs_err::write(folder.join(".draft.3.json"), "{").unwrap();
        fs_err::write(folder.join("7.json"), "{ torn").unwrap();
        let mut next = Shelf::open(folder.clone());
        assert_eq!(ids(&next), [1, 2]);
        assert!(!folder.join(".draft.3.json").exists());
        assert_eq!(next.read(1).map(|incident| incident.summary), Some(kept));
        assert_eq!(next.read(1).unwrap().stderr_tail, ["Error: no"]);
        let numbers: Vec<u64> = (0..5).map(|_| next.keep(incident("api")).summary.id).collect();
        assert_eq!(numbers, [3, 4, 5, 6, 8], "what is no incident keeps its name");
        assert_eq!(next.read(7), None);
    }

    #[test]
    fn the_oldest_files_go() {
        let home = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::open(home.path().join("incidents"));
        shelf.keep(incident("quiet"));
        for _ in 0..forkful_core::incidents::ENTRIES_MAX {
            shelf.keep(incident("busy"));
        }
        assert_eq!(ids(&shelf)[..2], [1, 3]);
        assert_eq!(fs_err::read_dir(home.path().join("incidents")).unwrap().count(), 200);
    }

    #[test]
    fn what_cannot_be_written_is_kept_in_memory() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("incidents");
        fs_err::write(&folder, "no folder").unwrap();
        let mut shelf = Shelf::open(folder.clone());
        for _ in 0..20 {
            shelf.keep(incident("api"));
        }
        assert_eq!(ids(&shelf).len(), UNWRITTEN_MAX);
        assert!(shelf.read(*ids(&shelf).last().unwrap()).is_some());
        fs_err::remove_file(&folder).unwrap();
        let id = shelf.keep(incident("api")).summary.id;
        assert_eq!(ids(&shelf).last(), Some(&id));
    }
}
