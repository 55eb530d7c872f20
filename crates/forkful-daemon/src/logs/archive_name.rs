//! Names of log files that were set aside: `api-out-0.log.20260131T235959.123Z`, and `.gz` when compressed.
//!
//! Of one log file they sort by time. Pure but for [`scan`], which looks into a folder. Files are named here and not
//! their paths: what is done with them is done in the folder that is held open ([`Entry`]).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use forkful_core::date_format::iso_8601;
use forkful_os::behalf::{Entry, Identity};

/// The ending of compressed files.
pub(super) const COMPRESSED: &str = ".gz";
/// The ending of a file that is being compressed. A file with it that exists at a start was left by a crash.
pub(super) const UNFINISHED: &str = ".gz.tmp";

/// A file that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    pub(super) folder: Identity,
    /// Name of the log file that it was.
    pub(super) log: OsString,
    pub(super) name: OsString,
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
pub(super) fn archive_name(log: &OsStr, at_ms: u64) -> OsString {
    with_ending(log, &format!(".{}", stamp(at_ms)))
}

/// A name with more at its end.
pub(super) fn with_ending(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
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

/// The name of the log file that was set aside under this name, compressed or not, if it is a name of that kind.
pub(crate) fn archived_log_of(name: &OsStr) -> Option<&OsStr> {
    parse(name).map(|parsed| OsStr::from_bytes(parsed.log))
}

/// What a folder holds of the log files of these names.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Oldest first. While one is being compressed only its old form is given.
    pub(super) archives: Vec<Archive>,
    /// Half-compressed files.
    pub(super) unfinished: Vec<OsString>,
}

/// Looks into the folder of an entry for what was set aside of the logs of these names; only regular files count. A
/// folder that does not exist any more is empty.
pub(super) fn scan(place: &Entry, logs: &HashSet<OsString>) -> io::Result<Found> {
    let mut found = Found::default();
    let of_log =
        |name: &OsStr| parse(name).and_then(|parsed| logs.get(OsStr::from_bytes(parsed.log)).cloned());
    let names = match place.folder().names(|name| of_log(name).is_some()) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other?,
    };
    for name in names {
        let (Some(log), Some(parsed)) = (of_log(&name), parse(&name)) else { continue };
        if parsed.is_unfinished {
            found.unfinished.push(name);
            continue;
        }
        // It may have been removed meanwhile.
        let Ok(Some(looked)) = place.sibling(&name)?.look() else { continue };
        if looked.is_regular {
            found.archives.push(Archive {
                folder: place.folder().identity(),
                log,
                stamp: String::from_utf8_lossy(parsed.stamp).into_owned(),
                is_compressed: parsed.is_compressed,
                bytes: looked.bytes,
                name,
            });
        }
    }
    sort(&mut found.archives);
    Ok(found)
}

/// Oldest first, each once. Where both forms of a file exist, the old one counts.
fn sort(archives: &mut Vec<Archive>) {
    archives.sort_by(|a, b| (&a.stamp, &a.log, a.is_compressed).cmp(&(&b.stamp, &b.log, b.is_compressed)));
    archives.dedup_by(|later, first| later.stamp == first.stamp && later.log == first.log);
}

/// The files that were set aside for one log file, oldest first, with the file that is being compressed now.
///
/// A folder is not read at one moment: one look may come too early for the compressed form and too late for the old one.
/// That happens once in the life of a file, so that a second look finds it.
pub(super) fn archives_of(log: &Entry) -> io::Result<Vec<Archive>> {
    let names = HashSet::from([log.name().to_owned()]);
    let mut archives = scan(log, &names)?.archives;
    archives.extend(scan(log, &names)?.archives);
    sort(&mut archives);
    Ok(archives)
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
    let mut kept_of: std::collections::HashMap<(Identity, &OsStr), u32> = std::collections::HashMap::new();
    let (mut bytes, mut gone) = (active_bytes, Vec::new());
    // The newest first. Once the total is used up, everything older goes too, so that what stays has no gaps.
    let mut is_full = false;
    for archive in archives.iter().rev() {
        let kept = kept_of.entry((archive.folder, &archive.log)).or_default();
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
pub(super) fn uncompressed(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let bytes = bytes.strip_suffix(COMPRESSED.as_bytes()).unwrap_or(bytes);
    OsString::from_vec(bytes.to_vec())
}
