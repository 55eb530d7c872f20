//! How a key is given on the command line, and what makes a row of the table.

use super::{Change, Group, Kind, KnownKey, Support};

/// An option of the command line.
#[derive(Debug, Clone, Copy)]
pub struct CliOption {
    /// `--long`; empty for the key's name.
    pub long: &'static str,
    pub short: Option<char>,
    /// Another `--long`.
    pub alias: &'static str,
    /// What `--help` calls its value; empty for an option without one, which gives `true`.
    pub value: &'static str,
    pub help: &'static str,
    /// How several values are written.
    pub many: Many,
    /// Without a value it gives `true`.
    pub may_stand_alone: bool,
    /// A value follows `=` alone, so that the next word is a target.
    pub needs_equals: bool,
}

/// Whether an option takes several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    No,
    /// By giving it again.
    Repeated,
    /// Separated by commas.
    Commas,
}

/// A row: a key as a configuration has it.
pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    doc: &'static str,
) -> KnownKey {
    KnownKey {
        name,
        aliases: &[],
        kind,
        support: Support::Now,
        default,
        doc,
        example,
        group: Group::App,
        since: "0.1.0",
        change: Change::NewWorkers,
        fields: &[],
        is_plain: false,
        yields_to: "",
        option: None,
        negation: None,
    }
}

/// A key of PM2 without effect here; `why` follows its name in a message.
pub(super) const fn foreign(name: &'static str, why: &'static str) -> KnownKey {
    KnownKey { support: Support::Foreign, ..key(name, Kind::Any, "", "", why) }
}

impl KnownKey {
    pub(super) const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(super) const fn of(self, group: Group) -> Self {
        Self { group, ..self }
    }

    pub(super) const fn changes(self, change: Change) -> Self {
        Self { change, ..self }
    }

    /// The value is a field as it is: the first of these.
    pub(super) const fn is(self, fields: &'static [&'static str]) -> Self {
        Self { fields, is_plain: true, ..self }
    }

    /// Resolution makes these fields of it and of other keys.
    pub(super) const fn decides(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }

    /// Where both are given, the other key counts.
    pub(super) const fn yields_to(self, other: &'static str) -> Self {
        Self { yields_to: other, ..self }
    }

    pub(super) const fn option(self, option: CliOption) -> Self {
        Self { option: Some(option), ..self }
    }

    pub(super) const fn negation(self, help: &'static str) -> Self {
        Self { negation: Some(help), ..self }
    }
}

/// An option with a value.
pub(super) const fn takes(value: &'static str, help: &'static str) -> CliOption {
    CliOption {
        long: "",
        short: None,
        alias: "",
        value,
        help,
        many: Many::No,
        may_stand_alone: false,
        needs_equals: false,
    }
}

/// An option that gives `true`.
pub(super) const fn flag(help: &'static str) -> CliOption {
    takes("", help)
}

impl CliOption {
    pub(super) const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    pub(super) const fn long(self, long: &'static str) -> Self {
        Self { long, ..self }
    }

    pub(super) const fn alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    pub(super) const fn repeated(self) -> Self {
        Self { many: Many::Repeated, ..self }
    }

    pub(super) const fn commas(self) -> Self {
        Self { many: Many::Commas, ..self }
    }

    pub(super) const fn alone(self) -> Self {
        Self { may_stand_alone: true, ..self }
    }

    pub(super) const fn equals(self) -> Self {
        Self { needs_equals: true, ..self }
    }
}
