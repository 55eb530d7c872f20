//! What a CPU profile says of an app, and that no profile is believed.

use forkful_core::profile::{CpuProfile, Functions};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A node: its number, function, file, and the nodes that it called.
fn node(id: u64, name: &str, url: &str, children: &[u64]) -> Value {
    let frame =
        json!({ "functionName": name, "scriptId": "7", "url": url, "lineNumber": 9, "columnNumber": 1 });
    json!({ "id": id, "callFrame": frame, "hitCount": 1, "children": children })
}

/// A profile in which each of these nodes was seen for these milliseconds, one after the other.
fn profile(nodes: &[Value], seen: &[(u64, u64)]) -> Value {
    let samples: Vec<u64> = seen.iter().map(|(id, _)| *id).collect();
    let all_us: u64 = seen.iter().map(|(_, ms)| ms * 1000).sum();
    // A sample stands for the time up to the next one, the last one for what is left.
    let before = seen.iter().map(|(_, ms)| ms * 1000).take(seen.len().saturating_sub(1));
    let deltas: Vec<u64> = std::iter::once(0).chain(before).take(seen.len()).collect();
    json!({ "nodes": nodes, "startTime": 5_000_000, "endTime": 5_000_000 + all_us, "samples": samples, "timeDeltas": deltas })
}

fn read(value: &Value) -> CpuProfile {
    CpuProfile::parse(value.to_string().as_bytes()).unwrap()
}

const APP: &str = "file:///srv/api/app.js";
const LIBRARY: &str = "file:///srv/api/node_modules/x/index.js";
const NODE: &str = "node:internal/crypto/pbkdf2";

#[test]
fn time_in_libraries_and_node_counts_for_the_apps_function_that_called_them() {
    let nodes = [
        node(1, "(root)", "", &[2, 3, 4, 8]),
        node(2, "(idle)", "", &[]),
        node(3, "(garbage collector)", "", &[]),
        node(4, "parserOnIncoming", "node:_http_server", &[5]),
        node(5, "handle", LIBRARY, &[6, 9]),
        node(6, "login", APP, &[7]),
        node(7, "pbkdf2Sync", NODE, &[]),
        node(8, "(program)", "", &[]),
        node(9, "stringify", "", &[]),
    ];
    let seen = [(2, 400), (7, 300), (6, 50), (5, 100), (9, 60), (4, 40), (3, 30), (8, 20)];
    let profile = read(&profile(&nodes, &seen));
    let functions = Functions::of(&profile);
    let told: Vec<String> = functions
        .hottest
        .iter()
        .map(|time| {
            let ms = |us: u64| us / 1000;
            let frame = profile.frames[time.frame].text("/srv/api");
            format!("{frame}: {} of {}, {} in all", ms(time.own_us), ms(time.charged_us), ms(time.total_us))
        })
        .collect();
    assert_eq!(
        told,
        [
            "login (app.js:10): 50 of 350, 350 in all",
            "handle (node_modules/x/index.js:10): 100 of 160, 510 in all",
            "parserOnIncoming (node:_http_server:10): 40 of 40, 550 in all",
        ]
    );
    let ms = [functions.charged_us, functions.garbage_collection_us, functions.program_us, functions.idle_us];
    assert_eq!(ms.map(|us| us / 1000), [550, 30, 20, 400]);
    assert_eq!((profile.total_us() / 1000, profile.busy_us() / 1000), (1000, 600));
}

#[test]
fn frames_of_the_agent_are_forkfuls_and_one_function() {
    let nodes = [
        node(1, "(root)", "", &[2, 7]),
        node(2, "listOnTimeout", NODE, &[3]),
        node(3, "onTick", "forkful:stalls.cjs", &[4, 5]),
        node(4, "report", "forkful:reports.cjs", &[]),
        node(5, "memoryUsage", NODE, &[6]),
        // A listener of the app that the agent calls is the app's.
        node(6, "listen", APP, &[]),
        node(7, "serve", APP, &[8]),
        node(8, "onStart", "forkful:stalls.cjs", &[]),
    ];
    let profile = read(&profile(&nodes, &[(3, 1), (4, 2), (5, 4), (6, 8), (8, 16)]));
    let functions = Functions::of(&profile);
    let told = functions.hottest.iter().map(|time| {
        let frame = &profile.frames[time.frame];
        (frame.text("/srv/api"), frame.origin().name(), time.charged_us / 1000)
    });
    let told: Vec<_> = told.collect();
    let expected = [
        ("serve (app.js:10)", "app", 16),
        ("listen (app.js:10)", "app", 8),
        ("Forkful's agent", "forkful", 7),
    ];
    assert_eq!(told, expected.map(|(text, origin, ms)| (text.to_owned(), origin, ms)));
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let nodes = [
        node(1, "(root)", "", &[2]),
        node(2, "walk", APP, &[3]),
        node(3, "walk", APP, &[4]),
        node(4, "walk", APP, &[]),
    ];
    let profile = read(&profile(&nodes, &[(2, 1), (3, 2), (4, 4)]));
    let functions = Functions::of(&profile);
    let [walk] = functions.hottest.as_slice() else { panic!("{functions:?}") };
    assert_eq!((walk.own_us, walk.charged_us, walk.total_us), (7000, 7000, 7000));
}

#[test]
fn a_deep_stack_is_read_without_recursion() {
    // A recursion as deep as this would overflow the stack of the test's thread.
    let count = 40_000;
    let nodes: Vec<Value> =
        (1..=count).map(|id| node(id, "down", APP, if id < count { &[1] } else { &[] })).collect();
    let mut value = profile(&nodes, &[(count, 5)]);
    for id in 1..count {
        value["nodes"][id as usize - 1]["children"] = json!([id + 1]);
    }
    let profile = read(&value);
    assert_eq!(Functions::of(&profile).hottest[0].total_us, 5000);
}

#[test]
fn what_is_no_tree_is_refused_in_words() {
    let root = |children: &[u64]| node(1, "(root)", "", children);
    let refused = |nodes: &[Value]| {
        let value = profile(nodes, &[(1, 1)]);
        CpuProfile::parse(value.to_string().as_bytes()).unwrap_err().to_string()
    };
    let all = [
        refused(&[root(&[2]), node(2, "a", APP, &[2])]),
        refused(&[root(&[2]), node(2, "a", APP, &[1])]),
        refused(&[root(&[2]), node(2, "a", APP, &[]), node(3, "b", APP, &[4]), node(4, "c", APP, &[3])]),
        refused(&[root(&[2, 2]), node(2, "a", APP, &[])]),
    ];
    for refusal in all {
        assert_eq!(refusal, "what the worker sent is no CPU profile: its nodes are no tree");
    }
    for (text, what) in [
        ("", "EOF while parsing"),
        ("[]", "invalid"),
        (r#"{"nodes":[]}"#, "missing field"),
        (r#"{"nodes":[],"startTime":0,"endTime":1,"samples":[],"timeDeltas":[]}"#, "a number of their own"),
    ] {
        let refusal = CpuProfile::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refusal.contains(what), "{refusal}");
    }
}

proptest! {
    /// Any tree, whatever its functions are called: no time is lost, and none is counted twice.
    #[test]
    fn times_add_up(
        parents in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..9), 0..40),
        seen in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..50), 0..60),
    ) {
        const NAMES: [(&str, &str); 9] = [
            ("a", APP), ("b", APP), ("lib", LIBRARY), ("lib2", LIBRARY), ("own", NODE), ("native", ""),
            ("(idle)", ""), ("(program)", ""), ("", APP),
        ];
        let mut nodes = vec![node(1, NAMES[parents.len() % 9].0, NAMES[parents.len() % 9].1, &[])];
        for (parent, name) in &parents {
            let (at, id) = (parent.index(nodes.len()), nodes.len() as u64 + 1);
            let (name, url) = NAMES[*name];
            nodes.push(node(id, name, url, &[]));
            nodes[at]["children"].as_array_mut().unwrap().push(json!(id));
        }
        let seen: Vec<(u64, u64)> =
            seen.iter().map(|(at, ms)| (at.index(nodes.len()) as u64 + 1, *ms)).collect();
        let value = profile(&nodes, &seen);
        let profile = read(&value);
        let all_us: u64 = seen.iter().map(|(_, ms)| ms * 1000).sum();
        prop_assert_eq!(profile.total_us(), all_us);
        let functions = Functions::of(&profile);
        let sum: u64 = functions.hottest.iter().map(|time| time.charged_us).sum();
        prop_assert_eq!(sum, functions.charged_us);
        for time in &functions.hottest {
            prop_assert!(time.charged_us <= time.total_us && time.total_us <= all_us);
        }
    }
}
