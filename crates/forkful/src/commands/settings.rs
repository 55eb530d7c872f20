//! `forkful set`, `multiset`, `get`, `unset` and `conf`: settings that are kept.

use std::collections::BTreeMap;

use forkful_core::spec::environment::shown_value;

use crate::cli::{ConfArgs, GetArgs, MultisetArgs, SetArgs, UnsetArgs};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{self, format};
use crate::settings::{Settings, normal_key, rotation_key};

pub(super) fn set(home: &Home, args: SetArgs) -> Result<Exit, Failure> {
    keep(home, vec![(args.key, args.value)])
}

pub(super) fn multiset(home: &Home, args: &MultisetArgs) -> Result<Exit, Failure> {
    let wrong = |what: &str| {
        Failure::new(Exit::WrongUse, format!("{:?} {what}", args.pairs))
            .hint("write keys and values in turn, as in `forkful multiset \"a:b 1 a:c 2\"`")
    };
    let words = shell_words::split(&args.pairs).map_err(|_| wrong("has a quote that is not closed"))?;
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(wrong("has a key without a value"));
    }
    keep(home, words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

pub(super) fn get(home: &Home, args: &GetArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(home.path())?;
    let key = args.key.as_deref().filter(|key| *key != "all").map(normal_key);
    if let Some(value) = key.as_deref().and_then(|key| settings.get(key)) {
        // Asked for by its name, it is shown as it is.
        if args.json {
            output::print_json(&value)?;
        } else {
            output::print(&format!("{}\n", format::visible(value)))?;
        }
        return Ok(Exit::Done);
    }
    let meant: BTreeMap<&str, &str> = settings
        .all()
        .iter()
        .filter(|(known, _)| match &key {
            Some(module) => known.split_once(':').is_some_and(|(name, _)| name == module),
            None => true,
        })
        .map(|(known, value)| (known.as_str(), shown_value(known, value)))
        .collect();
    if let (Some(key), true) = (&key, meant.is_empty()) {
        return Err(Failure::new(Exit::Failed, format!("`{key}` is not set"))
            .hint("`forkful get` shows what is; `forkful set` sets it"));
    }
    if args.json {
        output::print_json(&meant)?;
    } else {
        let lines =
            meant.iter().map(|(key, value)| format!("{} {}\n", format::visible(key), format::visible(value)));
        output::print(&lines.collect::<String>())?;
    }
    Ok(Exit::Done)
}

pub(super) fn unset(home: &Home, args: &UnsetArgs) -> Result<Exit, Failure> {
    let key = normal_key(&args.key);
    let absent = || {
        let error = if key == "all" { "nothing is set".to_owned() } else { format!("`{key}` is not set") };
        Failure::new(Exit::Failed, error).hint("`forkful get` shows what is")
    };
    if Settings::load(home.path())?.all().is_empty() {
        // There may be no home either.
        return Err(absent());
    }
    Settings::change(home.path(), |settings| if settings.unset(&key) { Ok(()) } else { Err(absent()) })?;
    output::say(&format!("{} unset\n", format::visible(&key)))?;
    Ok(Exit::Done)
}

pub(super) fn conf(home: &Home, args: ConfArgs) -> Result<Exit, Failure> {
    match args {
        ConfArgs { key: Some(key), value: Some(value) } => keep(home, vec![(key, value)]),
        ConfArgs { key, value: _ } => get(home, &GetArgs { key, json: false }),
    }
}

/// Keeps all of the pairs, or none.
fn keep(home: &Home, pairs: Vec<(String, String)>) -> Result<Exit, Failure> {
    home.create()?;
    let mut lines = String::new();
    let mut idle = Vec::new();
    let pairs: Vec<(String, String)> =
        pairs.into_iter().map(|(key, value)| (normal_key(&key), value)).collect();
    for (key, value) in &pairs {
        lines.push_str(&format!("{} {}\n", format::visible(key), format::visible(shown_value(key, value))));
        if rotation_key(key).is_none() {
            idle.push(format!("`{key}`"));
        }
    }
    Settings::change(home.path(), |settings| {
        pairs.into_iter().try_for_each(|(key, value)| settings.set(key, value))
    })?;
    output::print(&lines)?;
    if idle.is_empty() {
        output::note("apps without `log_rotate` that are started from now on have this");
    } else {
        output::note(&format!(
            "nothing here acts upon {}: kept, and shown by `forkful get`",
            idle.join(", ")
        ));
    }
    Ok(Exit::Done)
}
