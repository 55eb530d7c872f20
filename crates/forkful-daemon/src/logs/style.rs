//! How lines look in files: as they are, with the time before each, as JSON, without control sequences.

use forkful_api::types::LogStream;
use forkful_core::ansi;
use forkful_core::date_format::{DateFormat, iso_8601};
use forkful_core::logs::{AnsiPolicy, LineFormat, LogSpec};
use forkful_os::clock::utc_offset_seconds;

use super::json;
use super::stream::Batch;

/// How the lines of a stream look in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineStyle {
    /// As they are, or as JSON.
    pub format: LineFormat,
    /// The time of each line.
    pub stamp: Stamp,
    /// What becomes of control sequences.
    pub ansi: AnsiPolicy,
}

/// The form of a line's time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stamp {
    /// No time; in JSON, as [`Stamp::Iso`].
    #[default]
    None,
    /// ISO 8601 with milliseconds, in UTC.
    Iso,
    /// The user's own form, in local time.
    Local(DateFormat),
}

impl From<&LogSpec> for LineStyle {
    fn from(spec: &LogSpec) -> Self {
        let stamp = match (&spec.date_format, spec.time) {
            (Some(form), _) => Stamp::Local(form.clone()),
            (None, true) => Stamp::Iso,
            (None, false) => Stamp::None,
        };
        Self { format: spec.line_format, stamp, ansi: spec.ansi }
    }
}

impl Stamp {
    fn text(&self, at_ms: u64) -> String {
        match self {
            Self::None | Self::Iso => iso_8601(at_ms),
            Self::Local(form) => form.format(at_ms, utc_offset_seconds(at_ms)),
        }
    }

    /// What stands before a line of text; empty for none.
    pub(super) fn prefix(&self, at_ms: u64) -> String {
        match self {
            Self::None => String::new(),
            Self::Iso | Self::Local(_) => format!("{}: ", self.text(at_ms)),
        }
    }
}

impl LineStyle {
    /// Appends the lines in this style to `out`. False when they are to be taken as they are: then nothing was appended.
    pub(super) fn render(&self, batch: &Batch, out: &mut Vec<u8>) -> bool {
        let strips = self.ansi == AnsiPolicy::Strip
            && batch.parts().iter().any(|part| memchr::memchr(ansi::ESCAPE, part).is_some());
        match self.format {
            LineFormat::Raw if self.stamp == Stamp::None && !strips => return false,
            LineFormat::Raw => {
                let prefix = self.stamp.prefix(batch.at_ms);
                for line in batch.lines() {
                    out.extend_from_slice(prefix.as_bytes());
                    append(line, strips, out);
                }
            }
            LineFormat::Json => self.render_json(batch, strips, out),
        }
        true
    }

    /// The lines as readers see them: with the time, or as JSON, just as they stand in the files, so that what was read
    /// back and what is new look the same; control sequences stay. `None` when they are to be taken as they are.
    pub(super) fn shown(&self, batch: &Batch) -> Option<Vec<u8>> {
        let style = match self.format {
            LineFormat::Raw => Self { ansi: AnsiPolicy::Keep, ..self.clone() },
            LineFormat::Json => self.clone(),
        };
        let mut out = Vec::new();
        style.render(batch, &mut out).then_some(out)
    }

    fn render_json(&self, batch: &Batch, strips: bool, out: &mut Vec<u8>) {
        let stream = &batch.stream;
        let kind = match stream.stream {
            LogStream::Out => "out",
            LogStream::Err => "err",
        };
        let mut ending = b",\"timestamp\":".to_vec();
        json::string(self.stamp.text(batch.at_ms).as_bytes(), &mut ending);
        ending.extend_from_slice(
            format!(",\"type\":\"{kind}\",\"process_id\":{},\"app_name\":", stream.pm_id).as_bytes(),
        );
        json::string(stream.app.as_bytes(), &mut ending);
        ending.extend_from_slice(b"}\n");
        let mut plain = Vec::new();
        for line in batch.lines() {
            let mut content = &line[..line.len() - 1];
            if strips {
                plain.clear();
                ansi::strip(content, &mut plain);
                content = &plain;
            }
            out.extend_from_slice(b"{\"message\":");
            json::string(content, out);
            out.extend_from_slice(&ending);
        }
    }
}

fn append(line: &[u8], strips: bool, out: &mut Vec<u8>) {
    if strips {
        ansi::strip(&line[..line.len() - 1], out);
        out.push(b'\n');
    } else {
        out.extend_from_slice(line);
    }
}
