//! What a keeper leaves to the program that it becomes: a file in memory with a line for each descriptor that stays open.
//!
//! ```text
//! forkful-keeper 1
//! daemon <pid> <descriptor of the way to it>
//! <descriptor> <place> <kind> <app> <of> <part>
//! ```
//!
//! The first line has the version of the format; another one is refused.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use forkful_os::identity::take_inherited_fd;
use forkful_os::keeper::{Kind, Name};
use forkful_os::memory_file;

use crate::table::Table;

const HEAD: &str = "forkful-keeper 1";

/// The keeper's descriptors.
#[derive(Debug)]
pub struct Passage {
    pub table: Table<OwnedFd>,
    pub daemon: u32,
    /// The connection to it.
    pub socket: OwnedFd,
}

/// Writes the file, and returns it and all descriptors that must stay open.
pub fn write<'a>(
    table: &'a Table<OwnedFd>,
    daemon: u32,
    socket: &'a OwnedFd,
) -> io::Result<(OwnedFd, Vec<BorrowedFd<'a>>)> {
    let mut text = format!("{HEAD}\ndaemon {daemon} {}\n", socket.as_raw_fd());
    let mut open = vec![socket.as_fd()];
    let mut from = 0;
    while let Some((place, Name { kind, app, of, part }, fd)) = table.from(from) {
        let (number, kind) = (fd.as_raw_fd(), kind.number());
        let _infallible = writeln!(text, "{number} {place} {kind} {app} {of} {part}");
        open.push(fd.as_fd());
        from = place + 1;
    }
    let file = memory_file::create("forkful-passage", text.len() as u64)?;
    memory_file::write_at(&file, 0, text.as_bytes())?;
    Ok((file, open))
}

/// Takes over what the previous keeper has left in this file.
pub fn read(file: &OwnedFd) -> io::Result<Passage> {
    let mut bytes = vec![0; memory_file::length(file)?];
    memory_file::read_at(file, 0, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| fault("is no text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err(fault("has another format"));
    }
    let words = lines.next().unwrap_or_default();
    let (daemon, socket) =
        words.strip_prefix("daemon ").and_then(|words| words.split_once(' ')).ok_or_else(|| fault(words))?;
    let daemon = daemon.parse().map_err(|_| fault(words))?;
    let socket = take_inherited_fd(socket.parse().map_err(|_| fault(words))?)?;
    let mut table = Table::default();
    for line in lines {
        let (number, place, name) = entry(line).ok_or_else(|| fault(line))?;
        table.keep(place, name, take_inherited_fd(number)?);
    }
    Ok(Passage { table, daemon, socket })
}

fn entry(line: &str) -> Option<(RawFd, u32, Name)> {
    let numbers: Option<Vec<u32>> = line.split(' ').map(|word| word.parse().ok()).collect();
    let [number, place, kind, app, of, part] = numbers?.try_into().ok()?;
    Some((RawFd::try_from(number).ok()?, place, Name { kind: Kind::from_number(kind)?, app, of, part }))
}

fn fault(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("what the keeper before has left cannot be read: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn a_line_is_a_descriptor_and_its_name() {
        let name = Name { kind: Kind::Listener, app: 1, of: 2, part: 3 };
        let mut table = Table::default();
        table.keep(7, name, null());
        let socket = null();
        let (file, open) = write(&table, 42, &socket).unwrap();
        assert_eq!(open.len(), 2);
        let mut text = vec![0; memory_file::length(&file).unwrap()];
        memory_file::read_at(&file, 0, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().nth(2).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(entry(line), Some((open[1].as_raw_fd(), 7, name)));
    }

    #[test]
    fn another_format_is_refused_before_any_descriptor_is_taken() {
        let file = |text: &str| {
            let file = memory_file::create("test", text.len() as u64).unwrap();
            memory_file::write_at(&file, 0, text.as_bytes()).unwrap();
            read(&file).unwrap_err().to_string()
        };
        for text in
            ["", "forkful-keeper 2\ndaemon 1 3\n", "forkful-keeper 1\n", "forkful-keeper 1\ndaemon x 3\n"]
        {
            assert!(file(text).contains("cannot be read"), "{text}");
        }
        for line in ["", "1 2 3 4 5", "1 2 3 4 5 6 7", "1 2 99 4 5 6", "-1 2 3 4 5 6"] {
            assert_eq!(entry(line), None, "{line}");
        }
    }
}
