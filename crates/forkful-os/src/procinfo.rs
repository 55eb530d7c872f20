//! Information from the kernel about processes: CPU time, memory, command line, limits, listening sockets.
//!
//! Read-only. A process that ended meanwhile gives `ESRCH` or `ENOENT`, never a wrong number.

mod connections;
mod limits;
mod memory;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/meter.rs"]
mod meter;
mod proc_net;
mod sockets;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/stat.rs"]
mod stat;
mod usage;

pub use connections::{Connection, OpenConnection, connections_at, each_connection, listening_ports};
pub use limits::{open_files_limit, raise_open_files_limit};
pub use memory::proportional_bytes;
pub use meter::{Meter, memory_parts, open_files};
#[cfg(target_os = "linux")]
pub(crate) use sockets::tcp_listener_numbers;
pub use sockets::{
    ListeningSocket, PortOwner, listening_sockets_of, owner_of_port, socket_inodes, user_name,
};
pub use stat::{
    Resident, Scheduled, command_line, cpu_time, is_running, major_faults, own_thread, resident,
    resident_bytes, scheduled, start_time, waits_in,
};
pub(crate) use stat::{USUAL_LENGTH, end_of, is_of_this_user, read_text};
pub use usage::{MemoryParts, Usage};

#[cfg(test)]
pub(crate) use limits::CHANGING;
pub(crate) use limits::original_open_files_limit;
#[cfg(target_os = "linux")]
pub(crate) use limits::restore_open_files_limit;
pub(crate) use stat::Stat;
#[cfg(not(target_os = "linux"))]
pub(crate) use stat::all_pids;
pub use stat::is_living;
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) use stat::read_stat;
