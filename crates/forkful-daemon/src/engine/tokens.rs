//! The tokens of the reactor: which of the engine's descriptors an event is about.

use forkful_os::reactor;

use super::app::AppId;

/// Marks a reactor token as a process's pidfd; the rest of it is the key in `Engine::watched`.
pub(super) const PROCESS_BIT: u64 = 1 << 63;
/// The reactor token of the kernel's reports of closed connections.
pub(super) const CLOSES_TOKEN: u64 = PROCESS_BIT;
/// The reactor token of the engine's timer.
pub(super) const TIMER_TOKEN: u64 = PROCESS_BIT | (PROCESS_BIT - 1);
/// The reactor token of the socket that processes below workers connect to.
pub(super) const RELATIVES_TOKEN: u64 = PROCESS_BIT | (PROCESS_BIT - 2);
/// The reactor token of what the keeper says.
pub(super) const KEEPER_TOKEN: u64 = PROCESS_BIT | (PROCESS_BIT - 3);

/// The app of whose workers or addresses an event tells; `None` of another event.
pub(super) fn app_of(event: &reactor::Event) -> Option<AppId> {
    let is_of_app = event.token & PROCESS_BIT == 0;
    is_of_app.then_some(AppId((event.token >> forkful_cluster::primary::TOKEN_BITS) as u32))
}
