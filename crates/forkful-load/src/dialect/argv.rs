//! Reading other tools' command lines: short options alone, in clusters and with attached values, long
//! ones with `=` or a value behind them, shortened where that is unambiguous. Pure.

/// Whether an option is followed by a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// A value, attached or as the next argument.
    Value,
    /// A value only when it is attached (`-lFILE`, `--log=FILE`).
    Attached,
}

/// One option that a tool knows: its letter, its long names (the first is its name here) and its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag {
    pub(super) short: Option<char>,
    pub(super) long: &'static [&'static str],
    pub(super) takes: Takes,
}

/// A flag of one letter only.
pub(super) const fn letter(short: char, takes: Takes) -> Flag {
    Flag { short: Some(short), long: &[], takes }
}

/// A flag with a letter and long names.
pub(super) const fn both(short: char, long: &'static [&'static str], takes: Takes) -> Flag {
    Flag { short: Some(short), long, takes }
}

/// A flag with long names only.
pub(super) const fn long(long: &'static [&'static str], takes: Takes) -> Flag {
    Flag { short: None, long, takes }
}

/// What stands at one place of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// An option by its name: the first long one, or the letter.
    Option(String, Option<String>),
    Operand(String),
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No option is called so; with the dashes.
    Unknown(String),
    /// The option's value is missing; with the dashes.
    NoValue(String),
    /// The switch was given a value; with the dashes.
    Unwanted(String),
}

/// Whether options may come after operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Anywhere, as GNU programs do.
    Anywhere,
    /// The first operand ends the options, as `ab` has it.
    OptionsFirst,
}

/// Reads a command line. What follows `--` is operands.
pub(super) fn read(flags: &[Flag], argv: &[String], order: Order) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    let mut rest = argv.iter();
    let mut options = true;
    while let Some(argument) = rest.next() {
        if options && argument == "--" {
            options = false;
        } else if options && argument.starts_with("--") {
            items.push(long_option(flags, argument, &mut rest)?);
        } else if options && argument.len() > 1 && argument.starts_with('-') {
            cluster(flags, argument, &mut rest, &mut items)?;
        } else {
            options &= order == Order::Anywhere;
            items.push(Item::Operand(argument.clone()));
        }
    }
    Ok(items)
}

type Rest<'a> = std::slice::Iter<'a, String>;

fn long_option(flags: &[Flag], argument: &str, rest: &mut Rest<'_>) -> Result<Item, Fault> {
    let (dashed, attached) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (argument, None),
    };
    let flag =
        find_long(flags, dashed.trim_start_matches('-')).ok_or_else(|| Fault::Unknown(dashed.to_owned()))?;
    let value = match (flag.takes, attached) {
        (Takes::Nothing, Some(_)) => return Err(Fault::Unwanted(dashed.to_owned())),
        (Takes::Nothing | Takes::Attached, None) => None,
        (Takes::Value | Takes::Attached, Some(value)) => Some(value),
        (Takes::Value, None) => Some(rest.next().cloned().ok_or_else(|| Fault::NoValue(dashed.to_owned()))?),
    };
    Ok(Item::Option(name(flag), value))
}

/// A long name, whole or as the beginning of one flag only.
fn find_long<'a>(flags: &'a [Flag], given: &str) -> Option<&'a Flag> {
    if let Some(flag) = flags.iter().find(|flag| flag.long.contains(&given)) {
        return Some(flag);
    }
    let mut meant = flags.iter().filter(|flag| flag.long.iter().any(|name| name.starts_with(given)));
    let flag = meant.next()?;
    meant.next().is_none().then_some(flag)
}

fn cluster(flags: &[Flag], argument: &str, rest: &mut Rest<'_>, items: &mut Vec<Item>) -> Result<(), Fault> {
    let mut letters = argument[1..].chars();
    while let Some(given) = letters.next() {
        let flag = flags.iter().find(|flag| flag.short == Some(given));
        let flag = flag.ok_or_else(|| Fault::Unknown(format!("-{given}")))?;
        let attached = letters.as_str();
        let value = match flag.takes {
            Takes::Nothing => {
                items.push(Item::Option(name(flag), None));
                continue;
            }
            Takes::Attached if attached.is_empty() => None,
            Takes::Value if attached.is_empty() => {
                Some(rest.next().cloned().ok_or_else(|| Fault::NoValue(format!("-{given}")))?)
            }
            Takes::Value | Takes::Attached => Some(attached.to_owned()),
        };
        items.push(Item::Option(name(flag), value));
        break;
    }
    Ok(())
}

fn name(flag: &Flag) -> String {
    match flag.long.first() {
        Some(long) => (*long).to_owned(),
        None => flag.short.map(String::from).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        letter('k', Takes::Nothing),
        letter('n', Takes::Value),
        both('c', &["concurrent"], Takes::Value),
        both('l', &["log"], Takes::Attached),
        long(&["content-type"], Takes::Value),
    ];

    fn items(line: &str, order: Order) -> Result<Vec<Item>, Fault> {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(FLAGS, &argv, order)
    }

    fn option(name: &str, value: Option<&str>) -> Item {
        Item::Option(name.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn letters_come_alone_in_clusters_and_with_values_attached_or_not() {
        let expected = vec![
            option("k", None),
            option("n", Some("10")),
            option("concurrent", Some("5")),
            Item::Operand("url".to_owned()),
        ];
        assert_eq!(items("-kn 10 -c5 url", Order::OptionsFirst), Ok(expected));
    }

    #[test]
    fn long_names_take_values_in_both_ways_and_may_be_shortened_while_unambiguous() {
        assert_eq!(items("--concurrent=5", Order::Anywhere), Ok(vec![option("concurrent", Some("5"))]));
        assert_eq!(items("--conc 5", Order::Anywhere), Ok(vec![option("concurrent", Some("5"))]));
        assert_eq!(items("--con 5", Order::Anywhere), Err(Fault::Unknown("--con".to_owned())));
    }

    #[test]
    fn attached_values_are_never_taken_from_the_next_argument() {
        let expected = vec![option("log", None), Item::Operand("url".to_owned())];
        assert_eq!(items("-l url", Order::Anywhere), Ok(expected));
        assert_eq!(items("-lx", Order::Anywhere), Ok(vec![option("log", Some("x"))]));
    }

    #[test]
    fn the_first_operand_ends_the_options_only_where_the_tool_has_it_so() {
        let operands = ["url", "-k"].map(|text| Item::Operand(text.to_owned())).to_vec();
        assert_eq!(items("url -k", Order::OptionsFirst), Ok(operands));
        let expected = vec![Item::Operand("url".to_owned()), option("k", None)];
        assert_eq!(items("url -k", Order::Anywhere), Ok(expected));
    }

    #[test]
    fn faults_name_the_option() {
        assert_eq!(items("-x", Order::Anywhere), Err(Fault::Unknown("-x".to_owned())));
        assert_eq!(items("-n", Order::Anywhere), Err(Fault::NoValue("-n".to_owned())));
        assert_eq!(items("--foo=1", Order::Anywhere), Err(Fault::Unknown("--foo".to_owned())));
    }
}
