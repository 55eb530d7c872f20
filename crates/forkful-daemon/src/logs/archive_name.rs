//! Names of log files that were set aside: `api-out-0.log.20260131T235959.123Z`, and `.gz` when compressed.
//!
//! Of one log file they sort by time. Pure but for [`scan`], which looks into a folder.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use forkful_core::date_format::iso_8601;

/// The ending of compressed files.
pub(super) const COMPRESSED: &str = ".gz";
/// The ending of a file that is being compressed; one that is found at a start was left by a crash.
pub(super) const UNFINISHED: &str = ".gz.tmp";

/// A file that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    /// Name of the log file that it was, without its folder.
    pub(super) log: OsString,
    pub(super) path: PathBuf,
    /// When, in a form that sorts by time.
    pub(super) stamp: String,
    pub(super) is_compressed: bool,
    pub(super) bytes: u64,
}

/// The time as it stands in names; 20 characters.
pub(super) fn stamp(at_ms: u64) -> String {
    iso_8601(at_ms).replace(['-', ':'], "")
}

/// What a log file is called when it is set aside.
pub(super) fn archive_path(log: &Path, at_ms: u64) -> PathBuf {
    with_ending(log, &format!(".{}", stamp(at_ms)))
}

/// A path with more at its end.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// What a name says, if it is that of a file that was set aside.
struct Parsed<'a> {
    log: &'a [u8],
    stamp: &'a [u8],
    is_compressed: bool,
    is_unfinished: bool,
}

const STAMP_FORM: &[u8] = b"00000000T000000.000Z";

fn parse(name: &OsStr) -> Option<Parsed<'_>> {
    let bytes = name.as_bytes();
    let unfinished = bytes.strip_suffix(UNFINISHED.as_bytes());
    let compressed = bytes.strip_suffix(COMPRESSED.as_bytes());
    let rest = unfinished.or(compressed).unwrap_or(bytes);
    let (log, stamp) = rest.split_at(rest.len().checked_sub(STAMP_FORM.len())?);
    let fits = |(found, form): (&u8, &u8)| if *form == b'0' { found.is_ascii_digit() } else { found == form };
    let log = log.strip_suffix(b".").filter(|log| !log.is_empty())?;
    stamp.iter().zip(STAMP_FORM).all(fits).then_some(Parsed {
        log,
        stamp,
        is_compressed: compressed.is_some(),
        is_unfinished: unfinished.is_some(),
    })
}

/// What a folder holds of the log files of these names.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Oldest first. While one is being compressed only its old form is given.
    pub(super) archives: Vec<Archive>,
    /// Half-compressed files.
    pub(super) unfinished: Vec<PathBuf>,
}

/// Looks into a folder; one that does not exist is empty.
pub(super) fn scan(folder: &Path, logs: &HashSet<OsString>) -> io::Result<Found> {
    let mut found = Found::default();
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(fault) => return Err(fault),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(parsed) = parse(&name) else { continue };
        let Some(log) = logs.get(OsStr::from_bytes(parsed.log)) else { continue };
        if parsed.is_unfinished {
            found.unfinished.push(entry.path());
            continue;
        }
        // It may have been removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            found.archives.push(Archive {
                log: log.clone(),
                path: entry.path(),
                stamp: String::from_utf8_lossy(parsed.stamp).into_owned(),
                is_compressed: parsed.is_compressed,
                bytes: metadata.len(),
            });
        }
    }
    sort(&mut found.archives);
    Ok(found)
}

/// Oldest first, each once; of one that is there in both forms the old one.
fn sort(archives: &mut Vec<Archive>) {
    archives.sort_by(|a, b| (&a.stamp, &a.log, a.is_compressed).cmp(&(&b.stamp, &b.log, b.is_compressed)));
    archives.dedup_by(|later, first| later.stamp == first.stamp && later.log == first.log);
}

/// What was set aside of one log file, oldest first; also one that is being compressed now.
///
/// A folder is not read at one moment: one look may come too early for the compressed form and too late for the old one.
/// That happens once in the life of a file, so that a second look finds it.
pub(super) fn archives_of(log: &Path) -> io::Result<Vec<Archive>> {
    let real = real_path(log);
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else { return Ok(Vec::new()) };
    let names = HashSet::from([name.to_owned()]);
    let mut archives = scan(folder, &names)?.archives;
    archives.extend(scan(folder, &names)?.archives);
    sort(&mut archives);
    Ok(archives)
}

/// Where the file really is: set-aside files are beside that and not beside a link to it.
pub(super) fn real_path(log: &Path) -> PathBuf {
    fs_err::canonicalize(log).unwrap_or_else(|_| match (log.parent(), log.file_name()) {
        (Some(folder), Some(name)) => {
            fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join(name)
        }
        _ => log.to_owned(),
    })
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retention {
    /// Files of each log file.
    pub(super) keep: u32,
    /// Bytes of all together, with those that are written to.
    pub(super) total: Option<u64>,
}

/// Which of `archives` (oldest first, of one app) must go, when `active_bytes` are in the files that are written to.
pub(super) fn superfluous(archives: &[Archive], active_bytes: u64, retention: Retention) -> Vec<&Archive> {
    let mut kept_of: std::collections::HashMap<(&Path, &OsStr), u32> = std::collections::HashMap::new();
    let (mut bytes, mut gone) = (active_bytes, Vec::new());
    // The newest first. Once the total is used up, everything older goes too, so that what stays has no gaps.
    let mut is_full = false;
    for archive in archives.iter().rev() {
        let folder = archive.path.parent().unwrap_or(Path::new(""));
        let kept = kept_of.entry((folder, &archive.log)).or_default();
        bytes += archive.bytes;
        is_full |= retention.total.is_some_and(|total| bytes > total);
        if is_full || *kept >= retention.keep {
            bytes -= archive.bytes;
            gone.push(archive);
        } else {
            *kept += 1;
        }
    }
    gone
}

/// The name of an archive without [`COMPRESSED`].
pub(super) fn uncompressed(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(COMPRESSED.as_bytes()).unwrap_or(bytes);
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}
