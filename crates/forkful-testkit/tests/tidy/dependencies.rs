//! Which crate may depend on which. The table is the "Map" of `docs/ARCHITECTURE.md`, so the page is always
//! correct.

use std::collections::{BTreeMap, BTreeSet};

use crate::{none, read};

/// Crates from lowest to highest: each may use only those before it. `forkful-testkit` is only for tests.
const ORDER: [&str; 16] = [
    "forkful-testkit",
    "forkful-core",
    "forkful-os",
    "forkful-keeper",
    "forkful-serve",
    "forkful-export",
    "forkful-dispatch",
    "forkful-simulate",
    "forkful-cluster",
    "forkful-load",
    "forkful-dialects",
    "forkful-api",
    "forkful-config",
    "forkful-daemon",
    "forkful-lab",
    "forkful",
];

/// Our crates in a section of a manifest.
fn used(manifest: &str, section: &str) -> BTreeSet<String> {
    let body = manifest.split(&format!("\n[{section}]\n")).nth(1).unwrap_or_default();
    let lines = body.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| Some(line.split_once(['.', '=', ' '])?.0.to_owned()));
    names.filter(|name| name.starts_with("forkful")).collect()
}

/// The dependencies that the page allows, by crate folder.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/ARCHITECTURE.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, .., may_use] = cells.as_slice() else { return None };
        let name = folder.strip_prefix("`crates/")?.strip_suffix('`')?;
        let may = match *may_use {
            "–" => BTreeSet::new(),
            list => list.split(", ").map(|short| format!("forkful-{short}")).collect(),
        };
        Some((name.to_owned(), may))
    });
    rows.collect()
}

#[test]
fn each_crate_uses_what_the_map_allows() {
    let allowed = allowed();
    let folders: BTreeSet<&str> = allowed.keys().map(String::as_str).collect();
    assert_eq!(folders, BTreeSet::from(ORDER), "the crates in the map of docs/ARCHITECTURE.md, and ORDER");
    let faults = allowed.iter().flat_map(|(name, may)| {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let used = used(&manifest, "dependencies");
        let forbidden = used.difference(may).map(|other| format!("{name} uses {other}"));
        let idle = may.difference(&used).map(|other| format!("{name} may use {other}, and does not"));
        forbidden.chain(idle).collect::<Vec<_>>()
    });
    none(
        faults.collect(),
        "a crate depends on what the map of docs/ARCHITECTURE.md says, no more and no less",
    );
}

#[test]
fn dependencies_point_downwards() {
    let place = |name: &str| ORDER.iter().position(|other| *other == name).unwrap();
    let faults = ORDER.iter().flat_map(|name| {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let all = used(&manifest, "dependencies").into_iter().chain(used(&manifest, "dev-dependencies"));
        all.filter(|other| place(other) >= place(name))
            .map(|other| format!("{name} uses {other}"))
            .collect::<Vec<_>>()
    });
    none(faults.collect(), "a crate uses only crates before it in ORDER");
}

#[test]
fn only_tests_use_the_testkit() {
    let users = ORDER.iter().filter(|name| {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        used(&manifest, "dependencies").contains("forkful-testkit")
    });
    none(users.map(|name| (*name).to_owned()).collect(), "forkful-testkit is a dev-dependency");
}
