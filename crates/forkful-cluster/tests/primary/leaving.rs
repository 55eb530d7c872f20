//! Workers leave: on request, by themselves, or one server at a time.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::last_words::SILENCE;
use forkful_core::spec::Balance;
use forkful_os::channel;
use serde_json::{Value, json};

use super::client::{connect_all, own_host, tcp};
use super::world::{World, serving};

const HELLO: &str = r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain"]}"#;
const DRAINED: &str = r#"{"cmd":"NODE_FORKFUL","act":"drained","idle":1,"busy":0}"#;

/// The `act`s received since, in order.
fn acts(heard: &[Value]) -> Vec<&str> {
    heard.iter().filter_map(|line| line["act"].as_str()).collect()
}

#[test]
fn with_an_agent_the_drain_comes_first_and_disconnect_when_it_is_done() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.worker(workers[0]).say(HELLO);
    world.settle();
    assert!(world.primary.has_agent(WorkerId(workers[0])));
    world.primary.drain(WorkerId(workers[0]), world.now);
    world.primary.drain(WorkerId(workers[0]), world.now);
    world.settle();
    assert_eq!(acts(&world.workers[&workers[0]].heard), ["drain"]);
    let drain = world.workers[&workers[0]].heard.last().unwrap();
    assert_eq!(drain, &json!({ "cmd": "NODE_FORKFUL", "act": "drain", "grace_ms": 1000 }));
    let mut clients = connect_all(address, 6);
    assert_eq!(world.answered(&mut clients), [workers[1]; 6], "no new connections");
    world.worker(workers[0]).say(DRAINED);
    world.worker(workers[0]).say(DRAINED);
    world.settle();
    assert_eq!(acts(&world.workers[&workers[0]].heard), ["drain", "disconnect"]);
}

#[test]
fn without_an_agent_disconnect_comes_at_once() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    assert!(!world.primary.has_agent(WorkerId(workers[0])));
    world.primary.drain(WorkerId(workers[0]), world.now);
    world.settle();
    assert_eq!(acts(&world.workers[&workers[0]].heard), ["disconnect"]);
}

#[test]
fn drained_without_a_drain_means_nothing() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    world.worker(workers[0]).say(HELLO);
    world.worker(workers[0]).say(DRAINED);
    world.settle();
    assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), 0);
}

#[test]
fn what_waits_at_a_leaving_worker_goes_to_the_others() {
    for balance in [Balance::Direct, Balance::Sticky] {
        let (mut world, workers, address) = serving(balance, 2);
        world.block_all(&workers);
        let mut clients = connect_all(address, 16);
        world.primary.drain(WorkerId(workers[0]), world.now);
        world.unblock(workers[1]);
        world.settle();
        assert_eq!(world.answered(&mut clients), [workers[1]; 16], "{balance:?}");
    }
}

/// Node throws an exception in the app if a handle line arrives after its channel is closed, and a probe is a
/// handle line.
#[test]
fn nothing_with_a_handle_follows_disconnect() {
    for on_its_own_account in [false, true] {
        let (mut world, workers, _) = serving(Balance::Exact, 1);
        let id = WorkerId(workers[0]);
        if on_its_own_account {
            world.worker(workers[0]).say(r#"{"cmd":"NODE_CLUSTER","act":"exitedAfterDisconnect","seq":77}"#);
            world.settle();
        } else {
            world.primary.drain(id, world.now);
        }
        let heard = world.workers[&workers[0]].probed;
        assert_eq!(world.primary.ask_whether_it_turns(id, world.now), None);
        world.settle();
        assert_eq!(world.workers[&workers[0]].probed, heard);
    }
}

#[test]
fn a_query_after_disconnect_is_left_alone() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    world.primary.drain(WorkerId(workers[0]), world.now);
    let seq = world.worker(workers[0]).query(&tcp(own_host(), 8081));
    world.settle();
    assert!(!world.workers[&workers[0]].replies.contains_key(&seq));
}

#[test]
fn a_worker_that_leaves_on_its_own_account_gets_its_acknowledgement_and_no_connections() {
    for balance in [Balance::Exact, Balance::Direct] {
        let (mut world, workers, address) = serving(balance, 2);
        world.worker(workers[0]).say(r#"{"cmd":"NODE_CLUSTER","act":"exitedAfterDisconnect","seq":77}"#);
        world.settle();
        let acknowledged = |line: &&Value| line["ack"] == 77 && line["cmd"] == "NODE_CLUSTER";
        assert_eq!(world.workers[&workers[0]].heard.iter().filter(acknowledged).count(), 1);
        let mut clients = connect_all(address, 6);
        assert_eq!(world.answered(&mut clients), [workers[1]; 6], "{balance:?}");
        world.open(workers[0]);
        clients.append(&mut connect_all(address, 2));
        assert_eq!(world.answered(&mut clients), [workers[1]; 8], "it cannot be opened again");
    }
}

#[test]
fn traffic_can_be_closed_and_opened_again() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Direct] {
        let (mut world, workers, address) = serving(balance, 2);
        world.primary.close_traffic(WorkerId(workers[0]), world.now);
        let mut clients = connect_all(address, 6);
        assert_eq!(world.answered(&mut clients), [workers[1]; 6], "{balance:?}");
        world.primary.close_traffic(WorkerId(workers[1]), world.now);
        world.open(workers[0]);
        let mut clients = connect_all(address, 6);
        assert_eq!(world.answered(&mut clients), [workers[0]; 6], "{balance:?}");
    }
}

#[test]
fn a_server_can_be_closed_and_listen_again() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Direct] {
        let (mut world, workers, address) = serving(balance, 2);
        let key = world.reply(workers[0], 1).key();
        world.worker(workers[0]).close_server(&key);
        world.settle();
        let mut clients = connect_all(address, 4);
        assert_eq!(world.answered(&mut clients), [workers[1]; 4], "{balance:?}");
        let seq = world.listen(workers[0], &tcp(address.ip(), address.port()));
        assert_eq!(world.address(workers[0], seq), address);
        world.kill(workers[1]);
        let mut clients = connect_all(address, 4);
        assert_eq!(world.answered(&mut clients), [workers[0]; 4], "{balance:?}");
    }
}

#[test]
fn an_address_that_the_app_has_closed_everywhere_is_given_up_after_a_second() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    for worker in workers {
        let key = world.reply(worker, 1).key();
        world.worker(worker).close_server(&key);
    }
    world.advance(Duration::from_millis(999));
    assert!(TcpListener::bind(address).is_err());
    world.advance(Duration::from_millis(1));
    TcpListener::bind(address).unwrap();
    assert_eq!(world.primary.addresses().count(), 0);
}

#[test]
fn an_address_that_the_app_has_closed_is_not_in_the_way_of_another_one_with_its_port() {
    let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    let first = world.listen(worker, &tcp(own_host(), port));
    let everywhere = tcp("0.0.0.0", port);
    let refused = world.ask(worker, &everywhere);
    assert_eq!(world.reply(worker, refused).errno(), Some(-98), "the first one is open");
    let key = world.reply(worker, first).key();
    world.worker(worker).close_server(&key);
    world.settle();
    let second = world.listen(worker, &everywhere);
    assert_eq!(world.address(worker, second).port(), port);
    assert_eq!(world.primary.addresses().count(), 1);
}

#[test]
fn an_address_that_the_new_version_has_left_is_given_up_when_the_last_old_worker_leaves() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Direct] {
        let (mut world, old, address) = serving(balance, 2);
        world.worker(old[0]).say(HELLO);
        let new: Vec<u32> = (0..2)
            .map(|slot| {
                let number = world.spawn_serving(&tcp(own_host(), 8090));
                world.primary.identify(WorkerId(number), u32::MAX, slot);
                number
            })
            .collect();
        assert!(world.primary.drain(WorkerId(old[0]), world.now).is_empty(), "another worker listens there");
        world.settle();
        let left = world.primary.drain(WorkerId(old[1]), world.now);
        assert_eq!(left, [format!("tcp://{address}")], "{balance:?}");
        world.settle();
        let closes = json!([address.port().to_string()]);
        assert_eq!(world.workers[&old[0]].heard.last().unwrap()["closes"], closes);
        // Their own descriptors are the last ones.
        for worker in old {
            world.kill(worker);
        }
        TcpListener::bind(address).unwrap();
        let address = world.address(new[0], 1);
        let mut clients = connect_all(address, 6);
        assert!(world.answered(&mut clients).iter().all(|worker| new.contains(worker)));
    }
}

#[test]
fn an_address_that_the_new_version_may_still_open_is_kept() {
    let (mut world, old, address) = serving(Balance::Direct, 1);
    world.listen(old[0], &tcp(own_host(), 8091));
    let new = world.spawn_serving(&tcp(own_host(), 8091));
    world.primary.identify(WorkerId(new), u32::MAX, 0);
    assert!(world.primary.drain(WorkerId(old[0]), world.now).is_empty());
    world.kill(old[0]);
    let mut clients = connect_all(address, 2);
    world.listen(new, &tcp(address.ip(), address.port()));
    assert_eq!(world.answered(&mut clients), [new; 2]);
}

#[test]
fn a_worker_that_is_to_end_is_let_go_when_it_has_closed_its_servers() {
    for closes_first in [false, true] {
        let (mut world, workers, _) = serving(Balance::Auto, 2);
        let (id, key) = (WorkerId(workers[0]), world.reply(workers[0], 1).key());
        assert!(!world.primary.has_closed_all(id));
        if closes_first {
            world.worker(workers[0]).close_server(&key);
            world.settle();
            assert!(world.primary.has_closed_all(id));
            assert_eq!(
                world.workers[&workers[0]].heard_act("disconnect"),
                0,
                "it serves nobody, but may again"
            );
        }
        world.primary.stopping(id, world.now);
        world.advance(SILENCE);
        assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), usize::from(closes_first));
        if !closes_first {
            world.worker(workers[0]).close_server(&key);
            world.advance(SILENCE);
        }
        assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), 1);
        assert_eq!(world.workers[&workers[1]].heard_act("disconnect"), 0);
    }
}

#[test]
fn an_app_that_has_closed_its_servers_may_send_its_last_messages() {
    let (mut world, workers, _) = serving(Balance::Auto, 2);
    let key = world.reply(workers[0], 1).key();
    world.primary.stopping(WorkerId(workers[0]), world.now);
    world.worker(workers[0]).close_server(&key);
    world.settle();
    for _ in 0..3 {
        world.advance(SILENCE - Duration::from_millis(1));
        world.worker(workers[0]).say(r#"{"saved":true}"#);
        world.settle();
        assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), 0);
    }
    world.advance(SILENCE);
    assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), 1);
}

#[test]
fn an_address_stays_while_no_worker_is_there_until_all_is_given_up() {
    let (mut world, workers, address) = serving(Balance::Exact, 1);
    world.kill(workers[0]);
    world.advance(Duration::from_secs(3600));
    assert!(TcpListener::bind(address).is_err());
    world.primary.close_all();
    TcpListener::bind(address).unwrap();
    world.advance(Duration::from_secs(3600));
    assert_eq!(world.primary.next_wake(), None);
}

#[test]
fn clients_are_refused_once_all_is_given_up_whoever_has_a_copy_of_a_socket() {
    for balance in [Balance::Direct, Balance::Shared] {
        let (mut world, workers, address) = serving(balance, 1);
        let servers = &mut world.worker(workers[0]).servers;
        let copy = servers.values().flatten().next().unwrap().try_clone().unwrap();
        world.kill(workers[0]);
        TcpStream::connect(address).unwrap();
        world.primary.close_all();
        TcpStream::connect(address).unwrap_err();
        TcpListener::bind(address).unwrap();
        drop(copy);
    }
}

#[test]
fn a_worker_that_is_to_end_closes_its_server_and_clients_wait_for_the_next() {
    let (mut world, workers, address) = serving(Balance::Auto, 2);
    world.kill(workers[1]);
    let key = world.reply(workers[0], 1).key();
    world.primary.stopping(WorkerId(workers[0]), world.now);
    world.worker(workers[0]).close_server(&key);
    // Neither it, which still replies, nor a starting successor can listen here.
    let next = world.spawn();
    world.open(next);
    world.advance(Duration::from_secs(3600));
    assert_eq!(world.primary.addresses().count(), 1);
    assert!(TcpListener::bind(address).is_err());
    world.listen(next, &tcp(address.ip(), address.port()));
    assert_eq!(world.address(next, 1), address);
}

#[test]
fn a_handle_that_the_app_sends_is_acknowledged() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    let (end, far) = channel::pair().unwrap();
    let line = r#"{"cmd":"NODE_HANDLE","type":"net.Socket","msg":{"hello":"primary"},"key":null}"#;
    world.worker(workers[0]).say_with_handle(line, &end);
    drop(end);
    world.settle();
    let acknowledged = |line: &&Value| line["cmd"] == "NODE_HANDLE_ACK";
    assert_eq!(world.workers[&workers[0]].heard.iter().filter(acknowledged).count(), 1);
    // The daemon has no use for it.
    forkful_testkit::wait_until("it to be closed", || is_at_end(&far));
}

fn is_at_end(socket: &OwnedFd) -> bool {
    matches!(channel::receive(socket.as_fd(), &mut [0; 1], &mut Vec::new()), Ok(0))
}
