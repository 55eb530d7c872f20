//! Whether a version can use the packages installed in the user's checkout: it can if it requires the same
//! ones. Nothing is installed here, because that needs the network, which only the user's build command may
//! use.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// Lock files of package managers.
const LOCK_FILES: [&str; 6] =
    ["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"];

/// Keys of package.json that determine what is installed.
const DEPENDENCIES: [&str; 5] =
    ["dependencies", "devDependencies", "optionalDependencies", "overrides", "workspaces"];

/// A larger package.json or lock file is ignored.
const BYTES_MAX: u64 = 64 << 20;

/// What a directory of a version needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packages {
    /// Nothing.
    None,
    /// The packages of the checkout.
    Linked { from: PathBuf, to: PathBuf },
    /// Other packages than those of the checkout, for this reason.
    Own { why: String },
}

/// All directories in which Node.js looks for packages, from the top of the repository down to each of
/// `inner`.
pub(super) fn directories(inner: &[&Path]) -> BTreeSet<PathBuf> {
    let normal = |path: &&Path| -> PathBuf {
        path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
    };
    inner
        .iter()
        .map(normal)
        .flat_map(|path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .collect()
}

/// What the directory `inner` of a version needs; `checkout` and `version` are the top directories.
pub(super) fn of(checkout: &Path, version: &Path, inner: &Path) -> Packages {
    let (ours, theirs) = (checkout.join(inner), version.join(inner));
    let to = theirs.join("node_modules");
    let Some(manifest) = manifest(&theirs) else { return Packages::None };
    // Some repositories contain their packages.
    let wants_nothing = DEPENDENCIES.iter().all(|key| is_empty(&manifest[*key]));
    if wants_nothing || to.exists() {
        return Packages::None;
    }
    let own = |why: String| Packages::Own { why };
    let file = |name: &str| inner.join(name).display().to_string();
    if let Some(why) = differing_locks(checkout, version, inner) {
        return own(why);
    }
    let wanted_here = self::manifest(&ours).unwrap_or_default();
    if DEPENDENCIES.iter().any(|key| wanted_here[*key] != manifest[*key]) {
        return own(format!("{} requires other packages than that of this checkout", file("package.json")));
    }
    let from = ours.join("node_modules");
    if !from.is_dir() {
        // Packages of workspaces are installed further up.
        let is_above =
            inner.ancestors().skip(1).any(|above| checkout.join(above).join("node_modules").is_dir());
        return if is_above {
            Packages::None
        } else {
            own(format!("there is no {} here", file("node_modules")))
        };
    }
    match linked_outside(&from) {
        Some(name) => own(format!(
            "{} of this checkout is a link to code of the checkout, which both versions would use",
            inner.join("node_modules").join(name).display()
        )),
        None => Packages::Linked { from, to },
    }
}

fn manifest(directory: &Path) -> Option<Value> {
    serde_json::from_slice(&read(&directory.join("package.json"))?).ok()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let is_bearable = fs_err::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= BYTES_MAX);
    is_bearable.then(|| fs_err::read(path).ok()).flatten()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        _ => true,
    }
}

/// The lock files for a directory are those of the nearest directory, upwards, that has any.
fn differing_locks(checkout: &Path, version: &Path, inner: &Path) -> Option<String> {
    for above in inner.ancestors() {
        let [ours, theirs] =
            [checkout, version].map(|top| LOCK_FILES.map(|name| read(&top.join(above).join(name))));
        if ours.iter().chain(&theirs).all(Option::is_none) {
            continue;
        }
        let place = (0..LOCK_FILES.len()).find(|place| ours[*place] != theirs[*place])?;
        let name = above.join(LOCK_FILES[place]);
        return Some(format!("its {} is not the one of this checkout", name.display()));
    }
    None
}

/// A package that is a link to a place outside of its `node_modules`, as in workspaces.
fn linked_outside(modules: &Path) -> Option<PathBuf> {
    let real = fs_err::canonicalize(modules).ok()?;
    let entries = |directory: &Path| -> Vec<PathBuf> {
        fs_err::read_dir(directory)
            .map(|found| found.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    let is_scope = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('@'));
    let packages = entries(modules)
        .into_iter()
        .flat_map(|path| if is_scope(&path) && !path.is_symlink() { entries(&path) } else { vec![path] });
    let leads_out = |path: &PathBuf| {
        path.is_symlink() && fs_err::canonicalize(path).is_ok_and(|to| !to.starts_with(&real))
    };
    let found = packages.into_iter().find(leads_out)?;
    Some(found.strip_prefix(modules).map(Path::to_owned).unwrap_or(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkout and a version with these files; links are written with `->` and their target.
    fn needed(ours: &[(&str, &str)], theirs: &[(&str, &str)], inner: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let tops = ["ours", "theirs"].map(|name| dir.path().join(name));
        for (top, files) in tops.iter().zip([ours, theirs]) {
            for (name, text) in files {
                let path = top.join(name);
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                match text.strip_prefix("->") {
                    Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                    None => fs_err::write(path, text).unwrap(),
                }
            }
        }
        match of(&tops[0], &tops[1], Path::new(inner)) {
            Packages::None => "none".to_owned(),
            Packages::Linked { from, to } => {
                assert!(from.starts_with(&tops[0]) && to.starts_with(&tops[1]));
                "linked".to_owned()
            }
            Packages::Own { why } => why,
        }
    }

    const EXPRESS: (&str, &str) = ("package.json", r#"{"dependencies":{"express":"5"}}"#);
    const LOCK: (&str, &str) = ("package-lock.json", "1");
    const INSTALLED: (&str, &str) = ("node_modules/express/index.js", "");

    #[test]
    fn the_same_packages_are_linked_and_others_are_not() {
        assert_eq!(needed(&[], &[("app.js", "")], ""), "none");
        assert_eq!(needed(&[], &[("package.json", r#"{"name":"a","dependencies":{}}"#)], ""), "none");
        assert_eq!(needed(&[], &[("package.json", "no JSON")], ""), "none");
        assert_eq!(needed(&[EXPRESS, LOCK, INSTALLED], &[EXPRESS, LOCK], ""), "linked");
        assert_eq!(needed(&[EXPRESS, INSTALLED], &[EXPRESS], ""), "linked", "without any lock file");
        assert_eq!(needed(&[EXPRESS, LOCK], &[EXPRESS, LOCK, INSTALLED], ""), "none", "it brings its own");
        for (ours, theirs, why) in [
            (
                &[EXPRESS, LOCK, INSTALLED][..],
                &[EXPRESS, ("package-lock.json", "2")][..],
                "its package-lock.json is not",
            ),
            (&[EXPRESS, LOCK, INSTALLED], &[EXPRESS], "its package-lock.json is not"),
            (&[EXPRESS, INSTALLED], &[EXPRESS, ("yarn.lock", "")], "its yarn.lock is not"),
            (&[INSTALLED], &[EXPRESS], "package.json requires other packages"),
            (
                &[INSTALLED, ("package.json", r#"{"dependencies":{"express":"4"}}"#)],
                &[EXPRESS],
                "package.json requires other packages",
            ),
            (&[EXPRESS, LOCK], &[EXPRESS, LOCK], "there is no node_modules here"),
        ] {
            let told = needed(ours, theirs, "");
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn packages_of_a_workspace_are_those_of_each_version() {
        let package = ("packages/api/package.json", EXPRESS.1);
        let ours = [EXPRESS, LOCK, INSTALLED, package, ("packages/util/index.js", "")];
        assert_eq!(needed(&ours, &[EXPRESS, LOCK, package], "packages/api"), "none", "they are at the top");
        let other = [EXPRESS, ("package-lock.json", "2"), package];
        assert!(needed(&ours, &other, "packages/api").contains("its package-lock.json is not"));
        let linked = [&ours[..], &[("node_modules/@mine/util", "->../../packages/util")]].concat();
        let told = needed(&linked, &[EXPRESS, LOCK], "");
        assert!(told.contains("node_modules/@mine/util of this checkout is a link"), "{told}");
        // The layout of pnpm.
        let inside = [&ours[..], &[("node_modules/util", "->express")]].concat();
        assert_eq!(needed(&inside, &[EXPRESS, LOCK], ""), "linked");
    }

    #[test]
    fn packages_are_looked_for_where_node_does() {
        let found = directories(&[Path::new("packages/api/"), Path::new("packages/api/./src")]);
        let told: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(told, ["", "packages", "packages/api", "packages/api/src"]);
    }
}
