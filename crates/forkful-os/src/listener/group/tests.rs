//! Groups in the real kernel: which member gets a connection, for every address family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::*;
use crate::listener::{accept, bind_tcp_shared, queue_length};
use crate::testing::wait_until;

const LOOPBACK: &str = "127.0.0.1:0";

fn group(addr: &str, members: usize) -> TcpGroup {
    let mut group = TcpGroup::bind(addr.parse().unwrap(), false, 4096).unwrap();
    while group.len() < members {
        group.add_member().unwrap();
    }
    group
}

/// A connection to the group's port at `ip`, from `source`.
fn connect_from(source: IpAddr, ip: IpAddr, port: u16) -> OwnedFd {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::new(source, 0)).unwrap();
    connect(&socket, &SocketAddr::new(ip, port)).unwrap();
    socket
}

/// How many connections each member has received, removing them from the queues.
fn take(group: &TcpGroup) -> Vec<usize> {
    (0..group.len()).map(|i| std::iter::from_fn(|| accept(group.member(i)).unwrap()).count()).collect()
}

/// Connects `count` times to IPv4 loopback and returns the connections of each member.
fn spread(group: &TcpGroup, count: usize) -> Vec<usize> {
    let port = group.local_addr().port();
    let clients: Vec<_> =
        (0..count).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let got = take(group);
    assert_eq!(got.iter().sum::<usize>(), clients.len());
    got
}

/// The member that a connection from `source` to `ip` goes to.
fn member_for(group: &TcpGroup, source: IpAddr, ip: IpAddr) -> usize {
    let client = connect_from(source, ip, group.local_addr().port());
    let got = take(group);
    drop(client);
    assert_eq!(got.iter().sum::<usize>(), 1);
    got.iter().position(|n| *n == 1).unwrap()
}

#[test]
fn a_taken_port_is_refused_and_refuses() {
    let first = group(LOOPBACK, 2);
    for error in [
        TcpGroup::bind(first.local_addr(), false, 16).unwrap_err(),
        bind_tcp_shared(first.local_addr(), false, 16).unwrap_err(),
    ] {
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    }
    let plain = bind_tcp_shared(LOOPBACK.parse().unwrap(), false, 16).unwrap();
    let taken = crate::listener::local_addr(plain.as_fd()).unwrap();
    let error = TcpGroup::bind(taken, false, 16).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
}

#[test]
fn indexes_stay_right_when_members_are_added_under_a_program() {
    let mut group = group(LOOPBACK, 1);
    group.steer(&Steer::Only(0)).unwrap();
    for index in 1..9 {
        assert_eq!(group.add_member().unwrap(), index);
        let mut expected = vec![0; group.len()];
        expected[index - 1] = 3;
        assert_eq!(spread(&group, 3), expected, "a new member gets nothing until it is named");
        group.steer(&Steer::Only(index as u16)).unwrap();
    }
    for index in [8, 0, 5, 3] {
        group.steer(&Steer::Only(index)).unwrap();
        assert_eq!(spread(&group, 2)[usize::from(index)], 2);
    }
}

#[test]
fn random_spreads_over_the_listed_members_only() {
    let group = group(LOOPBACK, 7);
    group.steer(&Steer::Random(vec![6, 1, 3, 4])).unwrap();
    let got = spread(&group, 800);
    assert_eq!((got[0], got[2], got[5]), (0, 0, 0));
    for index in [1, 3, 4, 6] {
        // 200 expected, standard deviation 12: the bounds are eight deviations away.
        assert!((100..300).contains(&got[index]), "{got:?}");
    }
}

#[test]
fn what_waits_in_a_queue_stays_there_when_the_steering_changes() {
    let group = group(LOOPBACK, 3);
    group.steer(&Steer::Only(2)).unwrap();
    let port = group.local_addr().port();
    let _clients: Vec<_> = (0..5).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    group.steer(&Steer::Only(1)).unwrap();
    assert_eq!(queue_length(group.member(2)).unwrap(), 5);
    assert_eq!(take(&group), [0, 0, 5]);
}

#[test]
fn the_same_source_always_reaches_the_same_position_of_the_list() {
    let group = group(LOOPBACK, 6);
    let sources: Vec<IpAddr> = (1..=40).map(|n| Ipv4Addr::new(127, 0, 0, n).into()).collect();
    let target = IpAddr::from(Ipv4Addr::LOCALHOST);
    let place = |list: &[u16]| -> Vec<usize> {
        group.steer(&Steer::BySource(list.to_vec())).unwrap();
        sources
            .iter()
            .map(|source| {
                let member = member_for(&group, *source, target);
                assert_eq!(member_for(&group, *source, target), member);
                list.iter().position(|listed| usize::from(*listed) == member).expect("a listed member")
            })
            .collect()
    };
    let places = place(&[1, 2, 3, 4]);
    let count = |at: usize| places.iter().filter(|place| **place == at).count();
    assert!((0..4).all(|at| (3..=20).contains(&count(at))), "neighbouring addresses spread: {places:?}");
    assert_eq!(place(&[5, 1, 0, 2]), places, "another member at the same position");
}

#[test]
fn a_dual_stack_group_steers_clients_of_both_families() {
    let group = group("[::]:0", 5);
    let v4 = IpAddr::from(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    for index in 0..5 {
        group.steer(&Steer::Only(index)).unwrap();
        assert_eq!(member_for(&group, v4, v4), usize::from(index));
        assert_eq!(member_for(&group, v6, v6), usize::from(index));
    }
    group.steer(&Steer::BySource(vec![1, 2, 3, 4])).unwrap();
    let sticky = member_for(&group, v6, v6);
    assert!((0..5).all(|_| member_for(&group, v6, v6) == sticky));
    let of_v4: Vec<usize> =
        (1..=16).map(|n| member_for(&group, Ipv4Addr::new(127, 0, 1, n).into(), v4)).collect();
    assert!(of_v4.iter().all(|member| (1..5).contains(member)));
    assert!(of_v4.iter().any(|member| *member != of_v4[0]));
    let again: Vec<usize> =
        (1..=16).map(|n| member_for(&group, Ipv4Addr::new(127, 0, 1, n).into(), v4)).collect();
    assert_eq!(again, of_v4);
    group.steer(&Steer::Random(vec![0, 2])).unwrap();
    assert!((0..20).all(|_| [0, 2].contains(&member_for(&group, v6, v6))));
}

#[test]
fn ipv6_only_groups_leave_ipv4_alone() {
    let mut found = None;
    wait_until("a port of IPv6 that nobody has in IPv4", || {
        let mut group = TcpGroup::bind("[::]:0".parse().unwrap(), true, 16).unwrap();
        group.add_member().unwrap();
        let other = SocketAddr::from(([127, 0, 0, 1], group.local_addr().port()));
        found = bind_tcp_shared(other, false, 16).ok().map(|other| (group, other));
        found.is_some()
    });
    let (group, other) = found.unwrap();
    let port = group.local_addr().port();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    wait_until("the other listener has it", || queue_length(other.as_fd()).unwrap() == 1);
}

#[test]
fn a_list_that_names_no_member_is_refused() {
    let group = group(LOOPBACK, 2);
    for steer in [Steer::Only(2), Steer::Random(vec![]), Steer::Random(vec![0, 2]), Steer::BySource(vec![9])]
    {
        assert_eq!(group.steer(&steer).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{steer:?}");
    }
}

#[test]
fn a_group_that_is_handed_over_is_steered_by_its_new_owner() {
    let before = group(LOOPBACK, 3);
    let turns = before.steer(&Steer::RoundRobin(vec![1, 2]));
    let members = (0..3).map(|member| before.member(member).try_clone_to_owned().unwrap()).collect();
    let after = TcpGroup::handed_over(members, false, 16).unwrap();
    if turns.is_err() {
        return;
    }
    // An exited process has nothing open, but its program stays attached.
    drop(before);
    after.steer(&Steer::RoundRobin(vec![0, 1])).unwrap();
    assert_eq!(spread(&after, 30), [15, 15, 0]);
}

#[test]
fn round_robin_gives_exact_turns_or_says_that_it_is_not_available() {
    let mut group = group(LOOPBACK, 4);
    if let Err(error) = group.steer(&Steer::RoundRobin(vec![1, 2, 3])) {
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        return;
    }
    assert_eq!(spread(&group, 30), [0, 10, 10, 10]);
    assert_eq!(spread(&group, 1).iter().sum::<usize>(), 1);
    group.add_member().unwrap();
    group.steer(&Steer::RoundRobin(vec![4, 0])).unwrap();
    assert_eq!(spread(&group, 20), [10, 0, 0, 0, 10]);
    group.steer(&Steer::Only(2)).unwrap();
    assert_eq!(spread(&group, 3), [0, 0, 3, 0, 0], "a classic program in its place");
    group.steer(&Steer::RoundRobin(vec![3])).unwrap();
    assert_eq!(spread(&group, 3), [0, 0, 0, 3, 0]);
    group.steer(&Steer::RoundRobin(vec![0, 1, 1, 2])).unwrap();
    assert_eq!(spread(&group, 40), [10, 20, 10, 0, 0], "listed twice, two turns");
    assert_eq!(group.steer(&Steer::RoundRobin(vec![])).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_group_of_a_user_shares_its_port_with_no_other_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes sockets for others");
        return;
    }
    let user = Rights { uid: 65_534, gid: 65_534, groups: Vec::new() };
    let bind = || TcpGroup::bind(LOOPBACK.parse().unwrap(), false, 16);
    let mut group = as_user(&user, bind).unwrap();
    group.add_member().unwrap();
    assert_eq!(rustix::fs::fstat(group.member(1)).unwrap().st_uid, user.uid);
    let other = unbound_tcp(&group.local_addr(), false).unwrap();
    sockopt::set_socket_reuseport(&other, true).unwrap();
    let refused = rustix::net::bind(&other, &group.local_addr()).unwrap_err();
    assert_eq!(refused, Errno::ADDRINUSE);
}
