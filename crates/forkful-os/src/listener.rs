//! Listening sockets: single ones, groups that share a port, and what can be asked of them.
//!
//! Errors keep their `raw_os_error`, so that a worker sees the same code that its own `bind` would give.

mod group;
mod query;
mod round_robin;
mod single;
mod steer;

pub use group::{MEMBERS_MAX, TcpGroup};
pub use query::{accept, cookie, local_addr, queue_length};
pub use single::{bind_tcp_shared, bind_udp, bind_unix, is_left_over};
pub use steer::Steer;
