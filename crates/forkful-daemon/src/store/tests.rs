//! Saving with the program stopped at every call, with every call failing, with what was not synced taken back, and
//! with files that were cut, garbled and rolled back: no app is lost and none is there twice.

mod disk;

use std::collections::BTreeSet;
use std::time::Duration;

use forkful_api::saved::{SAVED_FORMAT, SavedApp, SavedState};
use serde_json::{Value, json};

use super::shelf::{Entry, Loaded, Shelf, Source};
use crate::Home;
use disk::{Disk, MemoryFiles};

fn now_ms() -> u64 {
    1_800_000_000_000
}

fn no_pause(_: Duration) {}

fn shelf(disk: &Disk) -> Shelf<MemoryFiles> {
    Shelf::new(disk.files(), Home::new("/home".into()), now_ms, no_pause)
}

fn entry(name: &str) -> Value {
    json!({ "definition": {
        "name": name, "program": "/bin/sleep", "program_args": [], "script": null, "args": ["1"], "cwd": "/",
        "runtime": "other", "mode": "fork", "instances": 1, "balance": "auto", "autorestart": true,
        "max_restarts": 3, "restart_window_ms": 60_000, "min_uptime_ms": 500, "restart_delay_ms": null,
        "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [], "wait_ready": false,
        "listen_timeout_ms": null, "kill_signal": 15, "kill_timeout_ms": 1600, "drain_timeout_ms": 9000,
        "out_file": null, "error_file": null, "merge_logs": false, "time": false, "agent": false,
    }})
}

fn text(apps: &[&str]) -> String {
    let apps = apps.iter().map(|name| entry(name)).collect();
    let state = SavedState { format: SAVED_FORMAT, program: "1".to_owned(), saved_at_ms: 7, apps };
    serde_json::to_string(&state).unwrap()
}

fn name_of(entry: &Entry) -> String {
    match entry {
        Entry::App(app, _) => app.definition.name.clone(),
        Entry::Unreadable(carried) => carried.name.clone(),
    }
}

/// The names in the order in which they are; a name that is there twice is a fault.
fn loaded(found: &Loaded) -> Vec<String> {
    let names: Vec<String> = found.entries.iter().map(name_of).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "doubled: {names:?}");
    names
}

/// Every app that any file on the disk holds.
fn anywhere(disk: &Disk) -> BTreeSet<String> {
    let states = disk.texts().into_iter().filter_map(|text| serde_json::from_slice::<SavedState>(&text).ok());
    states
        .flat_map(|state| state.apps)
        .filter_map(|entry| SavedApp::name_in(&entry).map(str::to_owned))
        .collect()
}

/// A daemon's life: what it saves, one after the other, and whether it began by taking up what was there.
struct Life {
    resurrects: bool,
    saves: &'static [&'static [&'static str]],
}

const LIVES: &[Life] = &[
    Life { resurrects: false, saves: &[&["a"], &["a", "b"], &["a", "b", "c"]] },
    Life { resurrects: true, saves: &[&["a", "b", "c", "d"], &["a", "b", "d"]] },
    Life { resurrects: false, saves: &[&["x"]] },
    Life { resurrects: false, saves: &[&["y"], &["y", "z"]] },
    Life { resurrects: true, saves: &[&["y", "z", "a"]] },
];

/// What a stopped program had been told is saved, and what it was about to save.
struct Stopped {
    /// By the life that was stopped.
    saved: Option<Vec<String>>,
    tried: Option<Vec<String>>,
    /// By lives before, and not taken up.
    earlier: BTreeSet<String>,
}

/// Lives all lives until a call fails.
fn live(disk: &Disk) -> Result<(), Stopped> {
    let owned = |apps: &[&str]| apps.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let mut earlier = BTreeSet::new();
    let mut last: Option<Vec<String>> = None;
    for life in LIVES {
        let mut shelf = shelf(disk);
        let mut keep = true;
        if life.resurrects {
            if shelf.load(Source::Newest).is_err() {
                return Err(Stopped { saved: last.clone(), tried: last, earlier });
            }
            keep = false;
        } else {
            earlier.extend(last.take().into_iter().flatten());
        }
        for apps in life.saves {
            if shelf.save(&text(apps), &mut keep).is_err() {
                return Err(Stopped { saved: last, tried: Some(owned(apps)), earlier });
            }
            last = Some(owned(apps));
        }
    }
    Ok(())
}

/// What a fresh daemon finds after a life was stopped.
fn check(disk: &Disk, stopped: &Stopped, case: &str) {
    let held = anywhere(disk);
    for name in &stopped.earlier {
        assert!(held.contains(name), "{case}: {name} of an earlier daemon is lost; there are {held:?}");
    }
    for name in stopped.saved.iter().flatten() {
        // An app that the next state drops was deleted by its user.
        let is_deleted = stopped.tried.as_ref().is_some_and(|tried| !tried.contains(name));
        assert!(held.contains(name) || is_deleted, "{case}: {name} is lost; there are {held:?}");
    }
    let found = loaded(&shelf(disk).load(Source::Newest).unwrap());
    let is_own = [&stopped.saved, &stopped.tried].iter().any(|state| state.as_ref() == Some(&found));
    match &stopped.saved {
        Some(_) => assert!(is_own, "{case}: found {found:?}"),
        // The first save of a life may not have happened: then what was before it is found.
        None => assert!(
            is_own
                || found.iter().all(|name| stopped.earlier.contains(name)) && !found.is_empty()
                || stopped.earlier.is_empty(),
            "{case}: found {found:?}"
        ),
    }
}

#[test]
fn a_program_that_is_killed_at_any_call_loses_no_app_and_doubles_none() {
    let mut calls = 0;
    loop {
        let disk = Disk::default();
        disk.stop_at(calls);
        let Err(stopped) = live(&disk) else { break };
        disk.go_on();
        check(&disk, &stopped, &format!("killed at call {calls}"));
        calls += 1;
    }
    assert!(calls > 60, "only {calls} calls");
}

#[test]
fn a_machine_that_stops_at_any_call_loses_no_app_and_doubles_none() {
    for calls in 0.. {
        let disk = Disk::default();
        disk.stop_at(calls);
        let Err(stopped) = live(&disk) else { break };
        disk.go_on();
        // Any number of the names that were changed since the folder was synced may have reached the disk.
        for reached in 0..=disk.unsynced() {
            let left = disk.after_power_cut(reached);
            check(&left, &stopped, &format!("power cut at call {calls}, {reached} renames reached the disk"));
        }
    }
}

#[test]
fn a_call_that_fails_leaves_the_state_before_and_the_next_try_saves() {
    for call in 0.. {
        let disk = Disk::default();
        let mut shelf = shelf(&disk);
        let mut keep = true;
        shelf.save(&text(&["a"]), &mut keep).unwrap();
        disk.fail_at(call);
        if shelf.save(&text(&["a", "b"]), &mut keep).is_ok() {
            assert!(call > 4, "a save has more than {call} calls");
            break;
        }
        let found = loaded(&self::shelf(&disk).load(Source::Newest).unwrap());
        assert!(found == ["a"] || found == ["a", "b"], "call {call}: {found:?}");
        shelf.save(&text(&["a", "b"]), &mut keep).unwrap();
        assert_eq!(loaded(&self::shelf(&disk).load(Source::Newest).unwrap()), ["a", "b"]);
    }
}

#[test]
fn a_read_that_fails_sets_nothing_aside_and_overwrites_nothing() {
    let disk = Disk::default();
    let mut keep = true;
    shelf(&disk).save(&text(&["a"]), &mut keep).unwrap();
    let before = disk.names();
    disk.fail_reads(true);
    let fault = shelf(&disk).load(Source::Newest).unwrap_err();
    assert!(fault.contains("/home/state.json"), "{fault}");
    assert_eq!(disk.names(), before);
    // A daemon that saves in the meantime keeps what it cannot read.
    let mut keep = true;
    shelf(&disk).save(&text(&["b"]), &mut keep).unwrap();
    disk.fail_reads(false);
    assert_eq!(loaded(&shelf(&disk).load(Source::Newest).unwrap()), ["b"]);
    assert_eq!(loaded(&shelf(&disk).load(Source::Previous).unwrap()), ["a"]);
}

#[test]
fn a_state_that_is_cut_or_garbled_is_set_aside_whole_under_a_name_of_its_own() {
    let whole = text(&["a", "b"]).into_bytes();
    let mut spoilt: Vec<Vec<u8>> = (0..whole.len()).step_by(7).map(|at| whole[..at].to_vec()).collect();
    for at in (0..whole.len()).step_by(5) {
        let mut garbled = whole.clone();
        garbled[at] ^= 0x15;
        spoilt.push(garbled);
    }
    for bytes in spoilt {
        let disk = Disk::default();
        disk.put("/home/state.previous.json", text(&["older"]).as_bytes());
        // A file of the same kind is there already, from the same millisecond.
        disk.put(&format!("/home/state.broken-{:013}.json", now_ms()), b"precious");
        disk.put("/home/state.json", &bytes);
        let found = shelf(&disk).load(Source::Newest).unwrap();
        let texts = disk.texts();
        assert!(texts.contains(&bytes), "the bytes are kept");
        assert!(texts.contains(&b"precious".to_vec()), "nothing was replaced");
        if found.broken.is_empty() {
            assert!(found.path.as_ref().unwrap().ends_with("state.json"));
            assert_eq!(found.entries.len(), 2, "{}", String::from_utf8_lossy(&bytes));
        } else {
            assert_eq!(loaded(&found), ["older"]);
            assert!(found.broken[0].contains("it is kept as /home/state.broken-"), "{}", found.broken[0]);
        }
    }
}

#[test]
fn a_state_that_was_rolled_back_is_what_is_found() {
    let disk = Disk::default();
    let mut keep = true;
    let mut shelf = shelf(&disk);
    shelf.save(&text(&["a"]), &mut keep).unwrap();
    shelf.save(&text(&["a", "b"]), &mut keep).unwrap();
    disk.put("/home/state.json", text(&["a"]).as_bytes());
    assert_eq!(loaded(&self::shelf(&disk).load(Source::Newest).unwrap()), ["a"]);
}

#[test]
fn an_entry_that_cannot_be_read_keeps_its_value_and_does_not_touch_the_others() {
    let disk = Disk::default();
    let mut strange = entry("strange");
    strange["definition"]["balance"] = json!("by-moon");
    let state = json!({"format": 1, "program": "9.9.9", "apps": [entry("a"), strange, 7, entry("b")]});
    disk.put("/home/state.json", state.to_string().as_bytes());
    let found = shelf(&disk).load(Source::Newest).unwrap();
    assert_eq!(loaded(&found), ["a", "strange", "unnamed-3", "b"]);
    let Entry::Unreadable(carried) = &found.entries[1] else { panic!("{found:?}") };
    assert_eq!(carried.value, strange);
    assert!(carried.fault.contains("written by version 9.9.9"), "{}", carried.fault);
    assert!(carried.fault.contains("by-moon"), "{}", carried.fault);
}

#[test]
fn daemons_that_start_without_resurrect_keep_what_all_of_them_left() {
    let disk = Disk::default();
    for apps in [&["a", "b"][..], &["c"], &["d"], &["e"]] {
        let mut keep = true;
        shelf(&disk).save(&text(apps), &mut keep).unwrap();
        assert!(!keep);
    }
    let held: Vec<String> = anywhere(&disk).into_iter().collect();
    assert_eq!(held, ["a", "b", "c", "d", "e"]);
    assert_eq!(loaded(&shelf(&disk).load(Source::Previous).unwrap()), ["d"]);
}

#[test]
fn states_of_earlier_daemons_have_a_bound_and_one_that_is_covered_is_not_kept_twice() {
    let disk = Disk::default();
    for number in 0..40 {
        let mut keep = true;
        shelf(&disk).save(&text(&[&format!("app-{number}")]), &mut keep).unwrap();
    }
    assert_eq!(disk.names().len(), 22, "{:?}", disk.names());
    let mut keep = true;
    shelf(&disk).save(&text(&["app-38", "app-39", "more"]), &mut keep).unwrap();
    let before = disk.names().len();
    let mut keep = true;
    shelf(&disk).save(&text(&["app-38", "app-39", "more"]), &mut keep).unwrap();
    let mut keep = true;
    shelf(&disk).save(&text(&["app-38", "app-39", "more"]), &mut keep).unwrap();
    assert_eq!(disk.names().len(), before);
}

#[test]
fn what_is_too_large_to_be_read_is_not_written() {
    let disk = Disk::default();
    let mut shelf = shelf(&disk);
    shelf.bytes_max = text(&["a"]).len() as u64;
    let mut keep = true;
    shelf.save(&text(&["a"]), &mut keep).unwrap();
    assert!(shelf.save(&text(&["a", "b", "c"]), &mut keep).is_err());
    assert_eq!(loaded(&shelf.load(Source::Newest).unwrap()), ["a"]);
    // And what is there nevertheless is neither cut nor set aside.
    disk.put("/home/state.json", text(&["a", "b", "c"]).as_bytes());
    let names = disk.names();
    assert!(shelf.load(Source::Newest).unwrap_err().contains("is larger than"));
    assert_eq!(disk.names(), names);
}

#[test]
fn clearing_removes_what_daemons_before_have_left_and_not_the_own_state() {
    let disk = Disk::default();
    for apps in [&["a"], &["b"], &["c"]] {
        let mut keep = true;
        shelf(&disk).save(&text(apps), &mut keep).unwrap();
    }
    shelf(&disk).save_dump(&text(&["d"])).unwrap();
    assert_eq!(shelf(&disk).clear().unwrap().len(), 3);
    assert_eq!(disk.names(), ["/home/state.json"]);
}
