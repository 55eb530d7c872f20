//! The control groups of this process and their CPU limits (cgroups(7), cpuset(7), the kernel's
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/`).

use std::path::{Path, PathBuf};

use super::CoreLimit;
use crate::procinfo::read_text;

/// A hierarchy that contains this process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Membership {
    /// Version 1: the controllers. Version 2: none.
    controllers: Vec<String>,
    /// The group's path in the hierarchy.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// The group visible at `point`.
    root: String,
    point: String,
    /// Version 1: the mount options, which include the controllers. Version 2: none.
    controllers: Vec<String>,
}

/// A group that contains this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnGroup {
    /// Version 1: the hierarchy's controllers. Version 2: none.
    pub(crate) controllers: Vec<String>,
    pub(crate) path: PathBuf,
}

/// The groups of this process, one per mounted hierarchy, as far as visible.
pub(crate) fn own_groups(root: &Path) -> Vec<OwnGroup> {
    let own = |(controllers, groups): (_, Vec<(PathBuf, String)>)| {
        Some(OwnGroup { controllers, path: groups.into_iter().next()?.0 })
    };
    hierarchies(root).into_iter().filter_map(own).collect()
}

/// All limits of the groups of this process and their ancestors.
pub(super) fn limits(root: &Path) -> Vec<CoreLimit> {
    let mut limits = Vec::new();
    for (controllers, groups) in hierarchies(root) {
        let has = |name: &str| controllers.iter().any(|controller| controller == name);
        for (directory, name) in groups {
            if controllers.is_empty() {
                limits.extend(quota_v2(&directory, &name));
                limits.extend(cpuset(&directory, &["cpuset.cpus.effective"], &name));
            }
            if has("cpu") {
                limits.extend(quota_v1(&directory, &name));
            }
            if has("cpuset") {
                limits.extend(cpuset(&directory, &["cpuset.effective_cpus", "cpuset.cpus"], &name));
            }
        }
    }
    limits
}

/// The mounted hierarchies of this process: their controllers (none: version 2), and its group with its
/// ancestors, each with its directory and its path in the hierarchy.
pub(crate) fn hierarchies(root: &Path) -> Vec<(Vec<String>, Vec<(PathBuf, String)>)> {
    let read = |file: &str| read_text(root.join(file)).unwrap_or_default();
    let mounts = parse_mounts(&read("proc/self/mountinfo"));
    let of = |membership: Membership| {
        let first = membership.controllers.first();
        let is_its = |mount: &&Mount| match first {
            Some(first) => mount.controllers.contains(first),
            None => mount.controllers.is_empty(),
        };
        let groups = ancestors(root, mounts.iter().find(is_its)?, &membership.path);
        Some((membership.controllers, groups))
    };
    parse_memberships(&read("proc/self/cgroup")).into_iter().filter_map(of).collect()
}

/// The directories of the group and its ancestors, as far as mounted, with their paths in the hierarchy.
fn ancestors(root: &Path, mount: &Mount, path: &str) -> Vec<(PathBuf, String)> {
    let point = root.join(mount.point.trim_start_matches('/'));
    // In a container the mount may show only a part of the hierarchy. A group outside of it is not visible,
    // and the top of the mounted part is the best substitute.
    let below = match mount.root.as_str() {
        "/" => path,
        part => path.strip_prefix(part).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(""),
    };
    let names: Vec<&str> = below.split('/').filter(|name| !name.is_empty()).collect();
    if names.contains(&"..") {
        return vec![(point, mount.root.clone())];
    }
    (0..=names.len())
        .rev()
        .map(|depth| {
            let part = names[..depth].join("/");
            let name = format!("{}/{part}", mount.root.trim_end_matches('/'));
            let name = if name == "/" { name } else { name.trim_end_matches('/').to_owned() };
            (point.join(part), name)
        })
        .collect()
}

/// `cpu.max`: quota and period in microseconds, or `max`.
fn quota_v2(directory: &Path, name: &str) -> Option<CoreLimit> {
    let text = read_text(directory.join("cpu.max")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next().unwrap_or("100000").parse().ok()?;
    quota_limit(quota, period, name)
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us`; a negative quota means no quota.
fn quota_v1(directory: &Path, name: &str) -> Option<CoreLimit> {
    let number = |file: &str| read_text(directory.join(file)).ok()?.trim().parse::<f64>().ok();
    quota_limit(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?, name)
}

fn quota_limit(quota: f64, period: f64, name: &str) -> Option<CoreLimit> {
    (quota > 0.0 && period > 0.0).then(|| CoreLimit::Quota { cores: quota / period, cgroup: name.to_owned() })
}

/// The first of `files` that exists and lists at least one core.
fn cpuset(directory: &Path, files: &[&str], name: &str) -> Option<CoreLimit> {
    let cores = files.iter().find_map(|file| count_list(&read_text(directory.join(file)).ok()?))?;
    Some(CoreLimit::Cpuset { cores, cgroup: name.to_owned() })
}

/// The number of entries in a list such as `0-3,8`; `None` for an empty or invalid list.
pub(super) fn count_list(text: &str) -> Option<u16> {
    let mut count: u32 = 0;
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    u16::try_from(count).ok().filter(|count| *count > 0)
}

/// Lines `hierarchy:controllers:path`; the path may contain colons.
fn parse_memberships(text: &str) -> Vec<Membership> {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            // An empty list of controllers means version 2 only with the number 0.
            if controllers.is_empty() && hierarchy != "0" {
                return None;
            }
            let controllers = controllers.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
            Some(Membership { controllers, path: path.to_owned() })
        })
        .collect()
}

/// Lines `id parent device root point options [optional…] - type source options`.
fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let mut place = place.split(' ').skip(3);
            let (root, point) = (unescape(place.next()?), unescape(place.next()?));
            let mut kind = kind.split(' ');
            let controllers = match kind.next()? {
                "cgroup2" => Vec::new(),
                "cgroup" => kind.nth(1)?.split(',').map(str::to_owned).collect(),
                _ => return None,
            };
            Some(Mount { root, point, controllers })
        })
        .collect()
}

/// Spaces and backslashes in paths are written as `\040`.
fn unescape(text: &str) -> String {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                result.push(byte);
                rest = &tail[3..];
            }
            _ => {
                result.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&result).into_owned()
}
