//! Every query gets exactly one reply of the right form.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use forkful_cluster::{Port, PrimaryEvent, WorkerId};
use forkful_core::spec::Balance;
use forkful_os::listener;
use serde_json::{Value, json};

use super::client::{connect_abstract, connect_all, connect_unix, own_host, tcp, unix};
use super::world::World;

#[test]
fn tcp_of_either_family_is_answered_with_the_address_as_bound() {
    for host in ["127.0.0.1", "::1"] {
        let mut world = World::new(Balance::Exact);
        let worker = world.spawn();
        let seq = world.ask(worker, &tcp(host, 0));
        let reply = &world.reply(worker, seq).message;
        assert_eq!((&reply["errno"], &reply["data"]), (&Value::Null, &Value::Null));
        assert_eq!(reply["sockname"]["address"], host);
        assert_eq!(reply["sockname"]["family"], if host == "::1" { "IPv6" } else { "IPv4" });
        assert_ne!(reply["sockname"]["port"], 0);
        assert!(world.reply(worker, seq).handle.is_none());
    }
}

#[test]
fn no_host_means_every_address_of_both_families() {
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    world.open(worker);
    let mut query = tcp("0.0.0.0", 0);
    query["address"] = Value::Null;
    query.as_object_mut().unwrap().remove("flags"); // as Node 18 and 20 send it
    let seq = world.listen(worker, &query);
    assert_eq!(world.reply(worker, seq).message["sockname"]["address"], "::");
    let port = world.address(worker, seq).port();
    for host in ["127.0.0.1", "::1"] {
        let (_client, by) = world.request(std::net::SocketAddr::new(host.parse().unwrap(), port));
        assert_eq!(by, worker);
    }
}

#[test]
fn ipv6_only_leaves_the_ipv4_port_to_others() {
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    let mut query = tcp("::", 0);
    query["flags"] = 1.into();
    let seq = world.listen(worker, &query);
    let port = world.address(worker, seq).port();
    TcpListener::bind((own_host(), port)).unwrap();
}

#[test]
fn all_workers_share_the_nth_random_port() {
    let mut world = World::new(Balance::Exact);
    let workers = [world.spawn(), world.spawn()];
    let mut ports = Vec::new();
    for worker in workers {
        for index in 0..2 {
            let mut query = tcp("127.0.0.1", 0);
            query["index"] = index.into();
            let seq = world.listen(worker, &query);
            ports.push(world.address(worker, seq).port());
        }
    }
    assert_eq!(ports[..2], ports[2..]);
    assert_ne!(ports[0], ports[1]);
}

#[test]
fn a_report_is_understood_by_the_port_that_it_names() {
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    world.open(worker);
    world.worker(worker).reports = false;
    let mut second = tcp("127.0.0.1", 0);
    second["index"] = 1.into();
    world.listen(worker, &tcp("127.0.0.1", 0));
    let seq = world.listen(worker, &second);
    // The first reply's socket may have been lost and be on its second attempt.
    world.worker(worker).report(seq);
    world.settle();
    let address = world.address(worker, seq);
    let (_client, by) = world.request(address);
    assert_eq!(by, worker);
}

#[test]
fn a_handed_socket_listens_on_the_port_asked_for() {
    for balance in [Balance::Direct, Balance::Auto, Balance::Sticky, Balance::Shared] {
        let mut world = World::new(balance);
        let host = own_host();
        let workers = [world.spawn(), world.spawn()];
        for worker in workers {
            let seq = world.ask(worker, &tcp(host, 8080));
            let reply = world.reply(worker, seq);
            assert_eq!(reply.errno(), Some(0));
            assert_eq!(reply.kind.as_deref(), Some("net.Native"));
            assert_eq!(world.address(worker, seq), (host, 8080).into(), "{balance:?}");
        }
        let cookie = |worker| {
            let handle = world.reply(worker, 1).handle.as_ref().unwrap();
            listener::cookie(handle.as_fd()).unwrap()
        };
        assert_eq!(cookie(workers[0]) == cookie(workers[1]), balance == Balance::Shared, "{balance:?}");
    }
}

#[test]
fn a_unix_socket_has_no_address_in_its_reply_and_goes_with_its_primary() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("app.sock");
    let mut world = World::new(Balance::Auto);
    let workers = [world.spawn(), world.spawn()];
    for worker in workers {
        world.open(worker);
        let seq = world.listen(worker, &unix(&path));
        let reply = &world.reply(worker, seq).message;
        assert_eq!((&reply["errno"], reply.get("sockname")), (&Value::Null, None));
    }
    let mut clients: Vec<_> = (0..10).map(|_| connect_unix(&path)).collect();
    world.answered(&mut clients);
    assert_eq!(world.shares(), [5, 5]);
    drop(world);
    assert!(!path.exists());
}

/// Node.js resolves the name in a worker as if it were a path.
#[test]
fn an_abstract_name_is_bound_without_the_folder_that_node_puts_before_it() {
    let name = format!("forkful-{}", std::process::id());
    let mut world = World::new(Balance::Exact);
    let workers: Vec<u32> = (0..2)
        .map(|_| world.spawn_serving(&unix(std::path::Path::new(&format!("/srv/app/\0{name}")))))
        .collect();
    assert_eq!(
        world.primary.addresses().next().map(|(address, ..)| address.to_owned()),
        Some(format!("unix:@{name}"))
    );
    let mut clients: Vec<_> = (0..4).map(|_| connect_abstract(&name)).collect();
    let by = world.answered(&mut clients);
    assert!(workers.iter().all(|worker| by.contains(worker)), "{by:?}");
}

#[test]
fn a_shared_unix_socket_is_handed_to_every_worker() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("app.sock");
    let mut world = World::new(Balance::Shared);
    let workers = [world.spawn(), world.spawn()];
    for worker in workers {
        let seq = world.ask(worker, &unix(&path));
        assert!(world.reply(worker, seq).handle.is_some());
    }
    let mut clients: Vec<_> = (0..4).map(|_| connect_unix(&path)).collect();
    world.answered(&mut clients);
}

#[test]
fn a_path_that_cannot_be_made_is_refused_with_the_kernels_reason() {
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    let home = tempfile::tempdir().unwrap();
    let seq = world.ask(worker, &unix(&home.path().join("none/app.sock")));
    assert_eq!(world.reply(worker, seq).errno(), Some(-13));
    let seq = world.ask(worker, &unix(&home.path().join("x".repeat(200))));
    assert!(world.reply(worker, seq).errno().is_some_and(|errno| errno < 0));
}

#[test]
fn udp_is_one_socket_for_all() {
    let mut world = World::new(Balance::Exact);
    let workers = [world.spawn(), world.spawn()];
    let query = json!({ "index": 0, "data": null, "address": own_host().to_string(), "port": 8080,
                        "addressType": "udp4", "fd": -1, "flags": 0 });
    for worker in workers {
        let seq = world.ask(worker, &query);
        let reply = world.reply(worker, seq);
        assert_eq!((reply.errno(), reply.kind.as_deref()), (Some(0), Some("dgram.Native")));
    }
    let handle = world.reply(workers[1], 1).handle.as_ref().unwrap().try_clone().unwrap();
    let server = UdpSocket::from(handle);
    server.set_nonblocking(false).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"ping", server.local_addr().unwrap()).unwrap();
    let mut datagram = [0; 8];
    assert_eq!(server.recv_from(&mut datagram).unwrap().0, 4);
}

#[test]
fn a_descriptor_of_another_process_is_refused() {
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    let query =
        json!({ "index": 0, "data": null, "address": null, "port": null, "addressType": null, "fd": 3 });
    let seq = world.ask(worker, &query);
    assert_eq!(world.reply(worker, seq).errno(), Some(-9));
}

#[test]
fn the_same_address_twice_in_one_worker_is_in_use_and_the_first_goes_on() {
    for balance in [Balance::Exact, Balance::Direct] {
        let mut world = World::new(balance);
        let query = tcp(own_host(), 8080);
        let worker = world.spawn_serving(&query);
        let seq = world.ask(worker, &query);
        assert_eq!(world.reply(worker, seq).errno(), Some(-98));
        let address = world.address(worker, 1);
        let mut clients = connect_all(address, 3);
        world.answered(&mut clients);
    }
}

#[test]
fn a_taken_port_is_in_use_and_the_supervisor_is_told_which() {
    let host = own_host();
    let other = TcpListener::bind((host, 8080)).unwrap();
    for balance in [Balance::Exact, Balance::Direct, Balance::Shared] {
        let mut world = World::new(balance);
        let worker = world.spawn();
        let seq = world.ask(worker, &tcp(host, 8080));
        assert_eq!(world.reply(worker, seq).errno(), Some(-98));
        let expected = PrimaryEvent::ListenFailed {
            worker: WorkerId(worker),
            address: format!("{host}:8080"),
            errno: 98,
            port: Some(Port::Tcp(8080)),
        };
        assert_eq!(world.events, [PrimaryEvent::Online(WorkerId(worker)), expected]);
    }
    drop(other);
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    world.listen(worker, &tcp(host, 8080));
}

#[test]
fn the_first_servers_data_goes_to_every_worker_even_after_it_has_left() {
    for balance in [Balance::Exact, Balance::Auto] {
        let mut world = World::new(balance);
        let mut query = tcp(own_host(), 8443);
        query["data"] = json!({ "ticketKeys": "first" });
        let first = world.spawn_serving(&query);
        assert_eq!(world.reply(first, 1).message["data"]["ticketKeys"], "first");
        query["data"] = json!({ "ticketKeys": "second" });
        let second = world.spawn_serving(&query);
        assert_eq!(world.reply(second, 1).message["data"]["ticketKeys"], "first");
        world.kill(first);
        world.kill(second);
        query["data"] = json!({ "ticketKeys": "third" });
        let third = world.spawn_serving(&query);
        assert_eq!(world.reply(third, 1).message["data"]["ticketKeys"], "first", "{balance:?}");
    }
}

#[test]
fn data_that_comes_later_is_kept_too() {
    let mut world = World::new(Balance::Exact);
    let mut query = tcp(own_host(), 8443);
    world.spawn_serving(&query);
    query["data"] = json!({ "ticketKeys": "second" });
    world.spawn_serving(&query);
    query["data"] = json!({ "ticketKeys": "third" });
    let third = world.spawn_serving(&query);
    assert_eq!(world.reply(third, 1).message["data"]["ticketKeys"], "second");
}

#[test]
fn data_is_echoed_with_errors_too() {
    let host = own_host();
    let _other = TcpListener::bind((host, 8443)).unwrap();
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    let mut query = tcp(host, 8443);
    query["data"] = json!({ "ticketKeys": "own" });
    let seq = world.ask(worker, &query);
    assert_eq!(world.reply(worker, seq).errno(), Some(-98));
    assert_eq!(world.reply(worker, seq).message["data"]["ticketKeys"], "own");
}

#[test]
fn a_query_that_makes_no_sense_is_refused_and_not_left_waiting() {
    let nonsense = [
        ("address", json!(5)),
        ("address", json!("not an address")),
        ("port", json!("http")),
        ("port", json!(70_000)),
        ("port", json!(-2)),
        ("port", json!(1.5)),
        ("addressType", json!(5)),
        ("addressType", json!("udp5")),
        ("addressType", json!([4])),
        ("addressType", json!(true)),
        ("index", json!(-1)),
        ("flags", json!("none")),
        ("readableAll", json!(1)),
    ];
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    for (member, value) in nonsense {
        let mut query = tcp("127.0.0.1", 0);
        query[member] = value;
        let seq = world.ask(worker, &query);
        let errno = world.reply(worker, seq).errno();
        assert_eq!(errno, Some(-22), "{query}");
    }
    for backlog in [json!(false), json!(null), json!(0), json!(77), json!("5"), json!(-1)] {
        let mut query = tcp(own_host(), 8080);
        query["backlog"] = backlog;
        world.listen(worker, &query);
    }
}

#[test]
fn a_file_that_another_program_has_put_in_the_sockets_place_stays() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("app.sock");
    let mut world = World::new(Balance::Exact);
    world.spawn_serving(&unix(&path));
    fs_err::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    world.primary.close_all();
    UnixStream::connect(&path).unwrap();
    other.accept().unwrap();
}

#[test]
fn a_link_in_place_of_the_sockets_folder_costs_nobody_a_file() {
    let home = tempfile::tempdir().unwrap();
    let [folder, moved, victim] = ["app", "moved", "victim"].map(|name| home.path().join(name));
    fs_err::create_dir(&folder).unwrap();
    fs_err::create_dir(&victim).unwrap();
    fs_err::write(victim.join("passwd"), "root").unwrap();
    let mut world = World::new(Balance::Exact);
    world.spawn_serving(&unix(&folder.join("passwd")));
    fs_err::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&victim, &folder).unwrap();
    world.primary.close_all();
    assert_eq!(fs_err::read(victim.join("passwd")).unwrap(), b"root");
    assert!(!moved.join("passwd").exists(), "its own file goes, wherever it is now");
}

#[test]
fn ports_below_the_lowest_are_refused_as_the_kernel_refuses_them() {
    for balance in [Balance::Auto, Balance::Shared] {
        let mut world = World::new(balance);
        let worker = world.spawn();
        world.refuse_ports_below(1024);
        let udp = json!({ "index": 0, "data": null, "address": "127.0.0.1", "port": 1023, "addressType": "udp4", "flags": 0 });
        for query in [tcp(own_host(), 1023), udp] {
            let seq = world.ask(worker, &query);
            assert_eq!(world.reply(worker, seq).errno(), Some(-13), "{query}");
        }
        let failed = world.events.iter().find(|event| matches!(event, PrimaryEvent::ListenFailed { .. }));
        let Some(PrimaryEvent::ListenFailed { errno, port, .. }) = failed else {
            panic!("{:?}", world.events)
        };
        assert_eq!((*errno, *port), (13, Some(Port::Tcp(1023))));
        // Port 0 is not a low port, and the lowest port is allowed.
        let host = own_host();
        world.listen(worker, &tcp(host, 0));
        world.listen(worker, &tcp(host, 1024));
    }
}
