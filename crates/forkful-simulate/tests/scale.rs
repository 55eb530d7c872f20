//! The scale mode with few workers: its results, and that they are the same each time.

use std::time::Duration;

use forkful_core::spec::Balance;
use forkful_simulate::scale::{Ends, into_page, kept, most, rate};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_daemon_works_for_each_connection_in_exact_mode_and_hardly_in_direct_mode() {
    let exact = rate(8, Balance::Exact, Duration::ZERO, 2_000.0, SECOND);
    let direct = rate(8, Balance::Direct, Duration::ZERO, 2_000.0, SECOND);
    for run in [exact, direct] {
        assert!((1_800..2_200).contains(&run.answered), "{run:?}");
        assert_eq!(run.dropped, 0, "{run:?}");
    }
    assert!(exact.daemon_share > 0.1, "{exact:?}");
    assert!(direct.daemon_share < 0.05, "{direct:?}");
}

#[test]
fn more_cores_are_more_connections_until_the_daemon_ends() {
    let slow = Duration::from_millis(10);
    let two = most(2, Balance::Exact, slow);
    let eight = most(8, Balance::Exact, slow);
    assert_eq!((two.ends, eight.ends), (Ends::Workers, Ends::Workers));
    assert!(eight.per_second > two.per_second * 3.0, "{two:?}, {eight:?}");
    let exact = most(16, Balance::Exact, Duration::ZERO);
    assert_ne!(exact.ends, Ends::Workers, "{exact:?}");
    let direct = most(16, Balance::Direct, Duration::ZERO);
    assert_eq!(direct.ends, Ends::Workers, "{direct:?}");
    assert!(direct.per_second > exact.per_second * 3.0, "{exact:?}, {direct:?}");
}

#[test]
fn kept_connections_come_back_after_a_reload_and_are_even_in_exact_mode() {
    for balance in [Balance::Exact, Balance::Direct] {
        let run = kept(4, balance, 400, 1_000.0);
        let [opened, reloaded, _, later] = run.uneven;
        assert!(opened < 1.4 && later < 1.4, "{balance}: {run:?}");
        assert!(balance == Balance::Direct || reloaded < 1.05, "{balance}: {run:?}");
        assert!(run.longest < Duration::from_secs(4), "{balance}: {run:?}");
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    let run = || format!("{:?}", kept(3, Balance::Auto, 300, 2_000.0));
    assert_eq!(run(), run());
}

#[test]
fn tables_are_put_between_their_marks() {
    let page = "a\n<!-- table:simulated -->\nold\n<!-- /table:simulated -->\nb\n";
    let new = into_page(page, "new\n").expect("the marks are there");
    assert_eq!(new, "a\n<!-- table:simulated -->\nnew\n<!-- /table:simulated -->\nb\n");
    assert_eq!(into_page("no marks", "new"), None);
}
