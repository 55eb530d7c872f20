//! Adopted sockets in the real kernel: where connections go when a socket is closed or its owner is stuck.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::*;
use crate::listener::accept;
use crate::testing::wait_until;

/// A listening socket with `SO_REUSEPORT`.
fn listener(port: u16) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    listen(&socket, 64).unwrap();
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    socket
}

fn port_of(socket: &OwnedFd) -> u16 {
    local_addr(socket.as_fd()).unwrap().port()
}

fn connect(port: u16, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect()
}

fn accepted(socket: &OwnedFd) -> usize {
    std::iter::from_fn(|| accept(socket.as_fd()).unwrap()).count()
}

/// Two sockets of one port, and their group; `None` if the kernel does not permit the program.
fn two() -> Option<(AdoptedGroup, OwnedFd, OwnedFd, u16)> {
    let mut group = match AdoptedGroup::new() {
        Ok(group) => group,
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            return None;
        }
    };
    let one = listener(0);
    let port = port_of(&one);
    let other = listener(port);
    for (place, socket) in [&one, &other].into_iter().enumerate() {
        assert_eq!(group.add(socket.try_clone().unwrap()).unwrap(), place);
    }
    group.steer(&[0, 1]).unwrap();
    Some((group, one, other, port))
}

#[test]
fn listed_sockets_take_turns() {
    let Some((group, one, other, port)) = two() else { return };
    let _clients = connect(port, 10);
    assert_eq!((accepted(&one), accepted(&other)), (5, 5));
    group.steer(&[1]).unwrap();
    let _more = connect(port, 4);
    assert_eq!((group.queue(0).unwrap(), group.queue(1).unwrap()), (0, 4));
    assert_eq!((accepted(&one), accepted(&other)), (0, 4));
}

#[test]
fn what_waits_for_an_owner_that_is_gone_goes_to_the_listed_one() {
    let Some((mut group, one, other, port)) = two() else { return };
    let _clients = connect(port, 10);
    drop(one);
    // The duplicate keeps its queued connections.
    assert_eq!(group.queue(0).unwrap(), 5);
    group.steer(&[1]).unwrap();
    group.remove(0);
    // A child that another test has just forked may hold a copy of the socket for a while.
    let mut moved = 0;
    wait_until("all connections have moved", || {
        moved += accepted(&other);
        moved == 10
    });
    // The index is free for another socket.
    let next = listener(port);
    assert_eq!(group.add(next.try_clone().unwrap()).unwrap(), 0);
    group.steer(&[0]).unwrap();
    let _more = connect(port, 3);
    assert_eq!((accepted(&next), accepted(&other)), (3, 0));
}

#[test]
fn a_flushed_queue_goes_to_the_listed_one_and_its_owner_listens_again() {
    let Some((group, one, other, port)) = two() else { return };
    let _clients = connect(port, 10);
    group.steer(&[1]).unwrap();
    group.flush(0).unwrap();
    assert_eq!((accepted(&one), accepted(&other)), (0, 10));
    group.steer(&[0]).unwrap();
    let _more = connect(port, 4);
    assert_eq!((accepted(&one), accepted(&other)), (4, 0));
}

#[test]
fn a_socket_that_was_let_go_can_be_taken_in_again() {
    let Some((mut group, one, other, port)) = two() else { return };
    group.steer(&[1]).unwrap();
    group.remove(0);
    let _clients = connect(port, 4);
    assert_eq!((accepted(&one), accepted(&other)), (0, 4));
    group.remove(1);
    assert_eq!(group.add(other.try_clone().unwrap()).unwrap(), 0);
    assert_eq!(group.add(one.try_clone().unwrap()).unwrap(), 1);
    group.steer(&[1]).unwrap();
    let _more = connect(port, 4);
    assert_eq!((accepted(&one), accepted(&other)), (4, 0));
}

#[test]
fn sockets_in_the_list_of_a_group_that_is_gone_are_taken_again() {
    let Some((group, one, other, port)) = two() else { return };
    drop(group);
    let mut next = AdoptedGroup::new().unwrap();
    for socket in [&one, &other] {
        // The kernel frees the list asynchronously; on a busy machine that takes longer than one call waits.
        let mut tries = 0..1000;
        while let Err(error) = next.add(socket.try_clone().unwrap()) {
            assert!(
                error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) && tries.next().is_some(),
                "{error}"
            );
        }
    }
    next.steer(&[1]).unwrap();
    let _clients = connect(port, 4);
    assert_eq!((accepted(&one), accepted(&other)), (0, 4));
}

#[test]
fn only_sockets_that_are_shared_are_found() {
    let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
    let pidfd = pidfd_open(own, PidfdFlags::empty()).unwrap();
    let alone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = listener(0);
    let found = shared_listeners_of(pidfd.as_fd(), std::process::id()).unwrap();
    let ports: Vec<u16> = found.iter().map(port_of).collect();
    assert!(ports.contains(&port_of(&shared)), "{ports:?}");
    assert!(!ports.contains(&alone.local_addr().unwrap().port()), "{ports:?}");
}
