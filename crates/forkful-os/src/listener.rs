//! Listening sockets: single sockets, groups that share a port, and queries about them.
//!
//! Errors keep their `raw_os_error`, so that a worker sees the error code that its own `bind` would return.

mod adopted;
mod group;
mod query;
mod round_robin;
mod single;
mod steer;
mod unix;

pub use adopted::{AdoptedGroup, shared_listeners_of};
pub use group::{MEMBERS_MAX, TcpGroup};
pub use query::{accept, cookie, is_bound_to, local_addr, queue_length, unprivileged_from};
pub use single::{bind_tcp_shared, bind_udp, listen_again};
pub use steer::Steer;
pub use unix::{Owner, SocketFile, UnixOptions, bind_unix, remove_left_over};
