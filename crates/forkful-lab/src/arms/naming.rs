//! Clearer names of arms for sentences and tables: scripts by the ends of their paths, Node.js programs by
//! their versions.

use std::path::Path;

use super::Arm;

/// Names the arms of several scripts after the scripts, each as short as is unique.
pub fn after_scripts(arms: &mut [Arm], scripts: &[String]) {
    if scripts.len() < 2 {
        return;
    }
    let names = distinct_ends(scripts);
    let one_arm_each = arms.len() == scripts.len();
    for arm in arms {
        let name = names[arm.app].as_str();
        arm.label = format!("{}, {}", scripts[arm.app], arm.label);
        let (kind, letter) = split(&arm.name);
        let kind = if one_arm_each { String::new() } else { format!(", {kind}") };
        arm.name = format!("{name}{kind}{letter}");
    }
}

/// `single#2 A` → `single` and ` A`.
fn split(name: &str) -> (&str, &str) {
    let (kind, rest) = name.split_once('#').unwrap_or((name, ""));
    (kind, rest.find(' ').map_or("", |at| &rest[at..]))
}

/// The shortest ends of the paths that all differ; equal paths get numbers.
fn distinct_ends(paths: &[String]) -> Vec<String> {
    let most = paths.iter().map(|path| Path::new(path).components().count()).max().unwrap_or(1);
    let ends = |parts: usize| -> Vec<String> {
        paths
            .iter()
            .map(|path| {
                let all: Vec<_> = Path::new(path).components().collect();
                let end: std::path::PathBuf = all[all.len().saturating_sub(parts)..].iter().collect();
                end.display().to_string()
            })
            .collect()
    };
    let differ =
        |ends: &Vec<String>| ends.iter().collect::<std::collections::BTreeSet<_>>().len() == ends.len();
    (1..=most).map(ends).find(differ).unwrap_or_else(|| {
        paths.iter().enumerate().map(|(index, path)| format!("{path} ({})", index + 1)).collect()
    })
}

/// Names arms after the version of their Node.js, if all versions differ.
pub fn after_versions(arms: &mut [Arm], version_of: impl Fn(&Path) -> Option<String>) {
    let versions: Vec<Option<String>> =
        arms.iter().map(|arm| arm.node.as_deref().and_then(&version_of)).collect();
    let known: Vec<&String> = versions.iter().flatten().collect();
    let programs = arms.iter().filter(|arm| arm.node.is_some()).count();
    let differ = known.iter().collect::<std::collections::BTreeSet<_>>().len() == programs;
    if !differ {
        return;
    }
    for (arm, version) in arms.iter_mut().zip(versions) {
        if let Some(version) = version {
            arm.name = format!("Node.js {version}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Defaults, parse};
    use super::*;

    fn named(list: &str, scripts: &[&str]) -> Vec<String> {
        let scripts: Vec<String> = scripts.iter().map(|script| (*script).to_owned()).collect();
        let defaults = Defaults { workers: 2, workers_given: false, apps: scripts.len() };
        let mut arms = parse(list, defaults).unwrap();
        after_scripts(&mut arms, &scripts);
        arms.into_iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn scripts_are_told_apart_by_as_little_as_will_do() {
        assert_eq!(named("cluster", &["a/old.js", "a/new.js"]), ["old.js", "new.js"]);
        assert_eq!(named("cluster", &["v1/app.js", "v2/app.js"]), ["v1/app.js", "v2/app.js"]);
        assert_eq!(named("cluster", &["app.js", "app.js"]), ["app.js (1)", "app.js (2)"]);
        assert_eq!(
            named("single,cluster", &["old.js", "new.js"]),
            ["old.js, single", "new.js, single", "old.js, cluster", "new.js, cluster"]
        );
        assert_eq!(named("single,cluster", &["app.js"]), ["single", "cluster"]);
    }

    #[test]
    fn programs_are_called_by_their_versions_where_these_differ() {
        let defaults = Defaults { workers: 2, workers_given: false, apps: 1 };
        let names = |version_of: fn(&Path) -> Option<String>| -> Vec<String> {
            let mut arms = parse("node=/18/node,/24/node", defaults).unwrap();
            after_versions(&mut arms, version_of);
            arms.into_iter().map(|arm| arm.name).collect()
        };
        let by_folder = |path: &Path| Some(format!("v{}.0.0", path.to_str()?.get(1..3)?));
        assert_eq!(names(by_folder), ["Node.js v18.0.0", "Node.js v24.0.0"]);
        assert_eq!(names(|_| Some("v20.0.0".to_owned())), ["node=/18/node", "node=/24/node"]);
        assert_eq!(names(|_| None), ["node=/18/node", "node=/24/node"]);
    }
}
