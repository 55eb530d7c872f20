//! The order of apps that depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::spec::AppSpec;

/// A cycle of apps that depend on each other; the last names the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle(pub Vec<String>);

/// Names in groups: all apps of a group may start at the same time, when the previous groups are ready.
///
/// `needs` has the dependencies of each name. A dependency that is not among the keys is not handled here: it
/// already exists, or is missing.
pub fn in_groups(needs: &BTreeMap<String, Vec<String>>) -> Result<Vec<Vec<String>>, Circle> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = needs
        .iter()
        .map(|(name, wanted)| {
            let known = wanted.iter().map(String::as_str).filter(|other| needs.contains_key(*other));
            (name.as_str(), known.collect())
        })
        .collect();
    let mut groups = Vec::new();
    while !left.is_empty() {
        let free: Vec<&str> =
            left.iter().filter(|(_, wanted)| wanted.is_empty()).map(|(name, _)| *name).collect();
        if free.is_empty() {
            return Err(circle(&left));
        }
        for name in &free {
            left.remove(name);
        }
        for wanted in left.values_mut() {
            wanted.retain(|other| !free.contains(other));
        }
        groups.push(free.into_iter().map(str::to_owned).collect());
    }
    Ok(groups)
}

/// The name of an app, and the names of the apps that it depends on.
pub fn needs_of(spec: &AppSpec) -> (String, Vec<String>) {
    (spec.name.to_string(), spec.depends_on.iter().map(ToString::to_string).collect())
}

/// Sorts apps so that each comes after its dependencies; otherwise their order stays. `needs` returns the
/// result of [`needs_of`] for an app. Apps in a cycle are not sorted.
pub fn sort_by_needs<T>(apps: &mut [T], needs: impl Fn(&T) -> (String, Vec<String>)) {
    let groups = in_groups(&apps.iter().map(&needs).collect()).unwrap_or_default();
    let ranks: BTreeMap<&str, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(rank, group)| group.iter().map(move |name| (name.as_str(), rank)))
        .collect();
    apps.sort_by_cached_key(|app| ranks.get(needs(app).0.as_str()));
}

/// Follows dependencies until a name repeats; each remaining name depends on another remaining one.
fn circle(left: &BTreeMap<&str, BTreeSet<&str>>) -> Circle {
    let mut path: Vec<&str> = Vec::new();
    let mut at = left.keys().next().copied();
    while let Some(name) = at {
        if let Some(begin) = path.iter().position(|seen| *seen == name) {
            let mut names: Vec<String> = path[begin..].iter().map(|name| (*name).to_owned()).collect();
            names.push(name.to_owned());
            return Circle(names);
        }
        path.push(name);
        at = left.get(name).and_then(|wanted| wanted.first()).copied();
    }
    Circle(Vec::new())
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "these apps wait for each other: {}", self.0.join(" → "))
    }
}

impl std::error::Error for Circle {}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(list: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        list.iter().map(|(name, wanted)| ((*name).to_owned(), owned(wanted))).collect()
    }

    #[test]
    fn what_is_needed_comes_first() {
        let groups =
            in_groups(&needs(&[("web", &["api", "cache"]), ("api", &["db"]), ("db", &[]), ("cache", &[])]));
        let expected = vec![vec!["cache".to_owned(), "db".into()], vec!["api".into()], vec!["web".into()]];
        assert_eq!(groups, Ok(expected));
    }

    #[test]
    fn apps_are_sorted_by_their_needs_and_keep_their_order_otherwise() {
        let owned = |needs: &[&str]| needs.iter().map(|name| (*name).to_owned()).collect();
        let sorted = |mut apps: Vec<(&'static str, &'static [&'static str])>| {
            sort_by_needs(&mut apps, |(name, needs)| ((*name).to_owned(), owned(needs)));
            apps.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let apps = vec![("web", &["api"][..]), ("jobs", &[]), ("api", &["db", "elsewhere"]), ("db", &[])];
        assert_eq!(sorted(apps), ["jobs", "db", "api", "web"]);
        assert_eq!(sorted(vec![("b", &["a"]), ("a", &["b"]), ("c", &[])]), ["b", "a", "c"], "a circle");
    }

    #[test]
    fn what_is_not_among_them_is_not_waited_for() {
        assert_eq!(in_groups(&needs(&[("web", &["db"])])), Ok(vec![vec!["web".to_owned()]]));
        assert_eq!(in_groups(&needs(&[])), Ok(vec![]));
    }

    #[test]
    fn a_circle_is_named() {
        let fault =
            in_groups(&needs(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &[])])).unwrap_err();
        assert_eq!(fault.to_string(), "these apps wait for each other: b → c → b");
        let alone = in_groups(&needs(&[("a", &["a"])])).unwrap_err();
        assert_eq!(alone.to_string(), "these apps wait for each other: a → a");
    }
}
