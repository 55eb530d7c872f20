//! Parses other tools' command lines: short options, alone, combined or with attached values; long options
//! with `=` or a following value, abbreviated if unambiguous. Pure.

/// The options of a tool, separated by spaces. Alternative names of an option are separated by `|`; the first
/// long one is its key here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Without a value.
    pub switches: &'static str,
    /// With a value, attached or as the next argument.
    pub values: &'static str,
    /// With a value only if it is attached (`-lFILE`, `--log=FILE`).
    pub attached: &'static str,
    /// The first operand ends the options, as in `ab`; otherwise options may come anywhere, as in GNU
    /// programs.
    pub come_first: bool,
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Value,
    Attached,
}

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Options by key, with their values; empty for a switch.
    pub options: Vec<(&'static str, String)>,
    pub operands: Vec<String>,
}

/// An error in a command line, with the option and its dashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such option.
    Unknown(String),
    /// The option's value is missing.
    NoValue(String),
    /// The switch does not take a value.
    Unwanted(String),
}

type Rest<'a> = std::slice::Iter<'a, String>;
type Known = (&'static str, Takes);

impl Options {
    /// Parses a command line. Everything after `--` is an operand.
    pub(crate) fn read(self, argv: &[String]) -> Result<Given, Fault> {
        let mut given = Given::default();
        let mut rest = argv.iter();
        let mut has_options = true;
        while let Some(argument) = rest.next() {
            if has_options && argument == "--" {
                has_options = false;
            } else if has_options && argument.starts_with("--") {
                given.options.push(self.long(argument, &mut rest)?);
            } else if has_options && argument.len() > 1 && argument.starts_with('-') {
                self.cluster(argument, &mut rest, &mut given)?;
            } else {
                has_options &= !self.come_first;
                given.operands.push(argument.clone());
            }
        }
        Ok(given)
    }

    /// All options with their names, and whether they take a value.
    fn all(self) -> impl Iterator<Item = Known> {
        let lists =
            [(self.switches, Takes::Nothing), (self.values, Takes::Value), (self.attached, Takes::Attached)];
        lists.into_iter().flat_map(|(list, takes)| list.split_whitespace().map(move |names| (names, takes)))
    }

    /// Finds an option by any of its names.
    pub(crate) fn find(self, given: &str) -> Option<Known> {
        let mut all = self.all();
        all.find(|(names, _)| names.split('|').any(|name| name == given)).map(named)
    }

    /// Finds an option by its long name or an unambiguous prefix.
    pub(crate) fn find_long(self, given: &str) -> Option<Known> {
        if given.len() > 1
            && let Some(found) = self.find(given)
        {
            return Some(found);
        }
        let is_meant = |names: &str| names.split('|').any(|name| name.len() > 1 && name.starts_with(given));
        let mut meant = self.all().filter(|(names, _)| is_meant(names));
        let found = meant.next()?;
        meant.next().is_none().then(|| named(found))
    }

    fn long(self, argument: &str, rest: &mut Rest<'_>) -> Result<(&'static str, String), Fault> {
        let (dashed, attached) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let found = self.find_long(dashed.trim_start_matches('-'));
        let (name, takes) = found.ok_or_else(|| Fault::Unknown(dashed.to_owned()))?;
        if takes == Takes::Nothing && attached.is_some() {
            return Err(Fault::Unwanted(dashed.to_owned()));
        }
        Ok((name, value(takes, attached, rest).ok_or_else(|| Fault::NoValue(dashed.to_owned()))?))
    }

    fn cluster(self, argument: &str, rest: &mut Rest<'_>, given: &mut Given) -> Result<(), Fault> {
        let mut letters = argument[1..].chars();
        while let Some(letter) = letters.next() {
            let (name, takes) =
                self.find(&letter.to_string()).ok_or_else(|| Fault::Unknown(format!("-{letter}")))?;
            let is_switch = takes == Takes::Nothing;
            let attached = Some(letters.as_str()).filter(|text| !is_switch && !text.is_empty());
            let value = value(takes, attached, rest).ok_or_else(|| Fault::NoValue(format!("-{letter}")))?;
            given.options.push((name, value));
            if !is_switch {
                break;
            }
        }
        Ok(())
    }
}

fn value(takes: Takes, attached: Option<&str>, rest: &mut Rest<'_>) -> Option<String> {
    match (takes, attached) {
        (_, Some(value)) => Some(value.to_owned()),
        (Takes::Value, None) => rest.next().cloned(),
        (Takes::Nothing | Takes::Attached, None) => Some(String::new()),
    }
}

fn named((names, takes): Known) -> Known {
    (names.split('|').find(|name| name.len() > 1).unwrap_or(names), takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options {
        switches: "k",
        values: "n c|concurrent content-type",
        attached: "l|log",
        come_first: false,
    };

    fn given(line: &str) -> Result<Given, Fault> {
        given_by(OPTIONS, line)
    }

    fn given_by(options: Options, line: &str) -> Result<Given, Fault> {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        options.read(&argv)
    }

    fn is(options: &[(&'static str, &str)], operands: &[&str]) -> Result<Given, Fault> {
        let options = options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Ok(Given { options, operands: operands.iter().map(|text| (*text).to_owned()).collect() })
    }

    #[test]
    fn letters_come_alone_in_clusters_and_with_values_attached_or_not() {
        assert_eq!(given("-kn 10 -c5 url"), is(&[("k", ""), ("n", "10"), ("concurrent", "5")], &["url"]));
    }

    #[test]
    fn long_names_take_values_in_both_ways_and_may_be_shortened_while_unambiguous() {
        assert_eq!(given("--concurrent=5"), is(&[("concurrent", "5")], &[]));
        assert_eq!(given("--conc 5"), is(&[("concurrent", "5")], &[]));
        assert_eq!(given("--con 5"), Err(Fault::Unknown("--con".to_owned())));
    }

    #[test]
    fn attached_values_are_never_taken_from_the_next_argument() {
        assert_eq!(given("-l url"), is(&[("log", "")], &["url"]));
        assert_eq!(given("-lx"), is(&[("log", "x")], &[]));
    }

    #[test]
    fn the_first_operand_ends_the_options_only_where_the_tool_has_it_so() {
        assert_eq!(given_by(Options { come_first: true, ..OPTIONS }, "url -k"), is(&[], &["url", "-k"]));
        assert_eq!(given("url -k"), is(&[("k", "")], &["url"]));
    }

    #[test]
    fn faults_name_the_option() {
        assert_eq!(given("-x"), Err(Fault::Unknown("-x".to_owned())));
        assert_eq!(given("-n"), Err(Fault::NoValue("-n".to_owned())));
        assert_eq!(given("--foo=1"), Err(Fault::Unknown("--foo".to_owned())));
        assert_eq!(given("--k"), Err(Fault::Unknown("--k".to_owned())), "a letter is no long name");
    }
}
