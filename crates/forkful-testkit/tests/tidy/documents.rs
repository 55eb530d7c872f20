//! References from documents to the repository: linked files, named places, and tests of invariants.

use crate::{files, none, read, root};

/// The tasks described in CONTRIBUTING.md.
const TASKS: [&str; 6] = [
    "A key of the configuration",
    "A command",
    "A balance mode",
    "A metric of the agent",
    "A field of `jlist`",
    "A rule about restarts (backoff)",
];

/// The links of a Markdown text: label and target.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("](").filter_map(|(at, _)| {
        let shown = &text[text[..at].rfind('[')? + 1..at];
        let target = &text[at + 2..][..text[at + 2..].find(')')?];
        Some((shown, target))
    })
}

#[test]
fn links_between_files_lead_somewhere() {
    let documents = files().into_iter().filter(|(name, _)| name.ends_with(".md"));
    let faults = documents.flat_map(|(name, text)| {
        let folder = root().join(&name).parent().unwrap().to_path_buf();
        let is_dead = |target: &str| {
            let path = target.split('#').next().unwrap_or_default();
            let is_ours =
                !path.is_empty() && !target.contains("://") && !target.contains(char::is_whitespace);
            is_ours && !folder.join(path).exists()
        };
        let dead = links(&text).filter(|(_, target)| is_dead(target));
        dead.map(|(_, target)| format!("{name}: {target}")).collect::<Vec<_>>()
    });
    none(faults.collect(), "a link to a file leads to one");
}

#[test]
fn a_newcomer_finds_the_place_for_each_task() {
    let page = read("CONTRIBUTING.md");
    let mut faults = Vec::new();
    for task in TASKS {
        let section = page.split(&format!("\n### {task}\n")).nth(1).unwrap_or_default();
        let section =
            section.split("\n## ").next().unwrap_or_default().split("\n### ").next().unwrap_or_default();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| [")).collect();
        if rows.is_empty() {
            faults.push(format!("{task}: no file is named"));
        }
        for row in rows {
            let file = links(row).next().map_or("", |(_, target)| target);
            let wanted = row.split('`').nth(1).unwrap_or_default();
            match fs_err::read_to_string(root().join(file)) {
                Ok(text) if !wanted.is_empty() && text.contains(wanted) => (),
                Ok(_) => faults.push(format!("{task}: {file} does not hold {wanted:?}")),
                Err(_) => faults.push(format!("{task}: there is no {file}")),
            }
        }
    }
    none(faults, "CONTRIBUTING.md names the files of each task, and a text in each");
}

#[test]
fn the_parts_of_the_checks_are_described() {
    let script = read("dev/check");
    let head = script.split("\nset -e").next().unwrap_or_default();
    let parts = head.lines().filter_map(|line| line.strip_prefix("#     ")?.split_whitespace().next());
    let named: Vec<String> = parts.map(|part| format!("| `dev/check {part}` |")).collect();
    assert!(named.len() >= 7, "the head of dev/check lists its parts: {named:?}");
    let page = read("CONTRIBUTING.md");
    let rows = page.lines().filter(|line| line.starts_with("| `dev/check ")).count();
    assert_eq!(rows, named.len(), "CONTRIBUTING.md has a row for each part of dev/check");
    none(
        named.into_iter().filter(|row| !page.contains(row.as_str())).collect(),
        "CONTRIBUTING.md describes each part",
    );
}

/// The lines of the changelog's unreleased section, without its heading.
fn unreleased(page: &str) -> Vec<&str> {
    let section = page.split("\n## Unreleased\n").nth(1).unwrap_or_default();
    section.split("\n## ").next().unwrap_or_default().lines().collect()
}

/// Errors in a section of the changelog: it must have an introduction of at most two lines, then headings
/// with lists.
fn faults_of_changes(section: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let first_heading = section.iter().position(|line| line.starts_with("### ")).unwrap_or(section.len());
    for (at, line) in section.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let is_intro = at < first_heading.min(2) && !line.starts_with("- ");
        let is_listed =
            at >= first_heading && ["### ", "- ", "  "].iter().any(|start| line.starts_with(start));
        if !is_intro && !is_listed {
            faults.push(format!("belongs to no list: {line}"));
        }
        if !seen.insert(*line) {
            faults.push(format!("stands there twice: {line}"));
        }
        if line.to_lowercase().contains("before, ") || line.trim_end().ends_with("before,") {
            faults.push(format!("tells of an earlier state of what is not released: {line}"));
        }
    }
    faults
}

#[test]
fn the_changelog_is_one_list_of_what_the_product_does() {
    let page = read("CHANGELOG.md");
    assert_eq!(page.matches("\n## Unreleased\n").count(), 1, "one section of what is not released");
    let section = unreleased(&page);
    assert!(section.iter().filter(|line| line.starts_with("- ")).count() > 10, "the section has a list");
    none(faults_of_changes(&section), "CHANGELOG.md is one list, in sections");
}

#[test]
fn a_changelog_with_a_second_list_is_refused() {
    let section = [
        "- An item before the first heading.",
        "### Added: logs",
        "- One.",
        "Stray.",
        "- One.",
        "  Before, two.",
    ];
    let faults = faults_of_changes(&section);
    assert_eq!(faults.len(), 4, "{faults:#?}");
}

/// Whether a file with this path suffix contains the test, or exists if no test is named.
fn names_a_test(reference: &str, files: &[(String, String)]) -> bool {
    let (path, test) = reference.split_once("::").unwrap_or((reference, ""));
    let is_path = |name: &str| {
        name.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with(['/', '-']))
    };
    let has_test = |(name, text): &(String, String)| match test {
        "" => true,
        _ if name.ends_with(".rs") => text.contains(&format!("fn {test}(")),
        _ => text
            .lines()
            .any(|line| ["test(", "it("].iter().any(|call| line.contains(call)) && line.contains(test)),
    };
    files.iter().filter(|(name, _)| is_path(name)).any(has_test)
}

#[test]
fn each_finding_of_the_security_page_has_its_tests() {
    let page = read("docs/SECURITY.md");
    let section = page.split("\n## Findings and their tests\n").nth(1).unwrap_or_default();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 80, "only {} rows were found", rows.len());
    let files = files();
    let mut faults = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [finding, _, tests] = cells[..] else {
            faults.push(format!("not three cells: {row}"));
            continue;
        };
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            faults.push(format!("{finding}: no test"));
        }
        let absent = named.into_iter().filter(|test| !names_a_test(test, &files));
        faults.extend(absent.map(|test| format!("{finding}: there is no {test}")));
    }
    none(faults, "docs/SECURITY.md names a test for each finding, by its file and its name");
}

#[test]
fn every_part_of_the_checks_runs_in_ci() {
    let script = read("dev/check");
    let all = script.lines().find_map(|line| line.strip_prefix("all=(")?.strip_suffix(')'));
    let all = all.expect("dev/check has a line with all its parts");
    let workflow = read(".github/workflows/check.yml");
    let run: std::collections::BTreeSet<&str> = workflow
        .lines()
        .filter(|line| line.trim().starts_with("- run: "))
        .filter_map(|line| line.split_once("dev/check "))
        .flat_map(|(_, parts)| parts.split_whitespace())
        .collect();
    let absent = all.split_whitespace().filter(|part| !run.contains(part));
    none(absent.map(str::to_owned).collect(), "each part of dev/check is in .github/workflows/check.yml");
}
