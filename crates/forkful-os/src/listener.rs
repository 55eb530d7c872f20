//! Listening sockets: single sockets, groups that share a port, and queries about them.
//!
//! Errors keep their `raw_os_error`, so that a worker sees the error code that its own `bind` would return.

#[cfg(target_os = "linux")]
mod adopted;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/listener.rs"]
mod alone;
#[cfg(target_os = "linux")]
mod group;
mod query;
#[cfg(target_os = "linux")]
mod round_robin;
mod single;
#[cfg(target_os = "linux")]
mod steer;
#[cfg(target_os = "linux")]
mod unix;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/unix.rs"]
mod unix;
mod unix_options;

#[cfg(target_os = "linux")]
pub use adopted::{AdoptedGroup, shared_listeners_of};
#[cfg(not(target_os = "linux"))]
pub use alone::{AdoptedGroup, MEMBERS_MAX, Steer, TcpGroup, shared_listeners_of};
#[cfg(target_os = "linux")]
pub use group::{MEMBERS_MAX, TcpGroup};
pub use query::{accept, cookie, end, is_bound_to, local_addr, queue_length, unprivileged_from};
pub use single::{bind_tcp_shared, bind_udp, listen_again};
#[cfg(target_os = "linux")]
pub use steer::Steer;
pub use unix::{SocketFile, bind_unix, remove_left_over};
pub use unix_options::{Owner, UnixOptions};
