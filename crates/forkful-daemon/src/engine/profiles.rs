//! Profiles of workers: which worker is meant, and whether it can take one. Its agent writes the profile into a socket, whose other end goes to the server:
//! nothing of the profile passes through the loop's own state.

use std::os::fd::OwnedFd;
use std::time::Duration;

use forkful_api::profile::ProfileRequest;
use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::Time;
use forkful_core::pages::Page;
use forkful_core::profile::{ProfileOrder, Room, RoomOf, heap_fits};
use forkful_os::channel;
use forkful_os::memory_limit::free_memory;

use super::app::{App, Process};
use super::apps::Apps;
use super::commands::refuse;
use super::conversation::Partner;

/// A worker that writes a heap snapshot stands still while the socket is full. When nothing is read for so long, it gives up.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Has a worker's agent take a profile; gives the socket into which it is written.
pub(super) fn order_profile(
    apps: &mut Apps,
    partners: &[Partner],
    request: &ProfileRequest,
    now: Time,
) -> Result<OwnedFd, ErrorReply> {
    let order = request.order().map_err(|error| refuse(ErrorCode::BadRequest, &error, None))?;
    let cannot =
        |error: &str, hint: &str| refuse(ErrorCode::Conflict, error, Some(Page::Profiles.hint(hint)));
    let [partner] = partners else {
        let (error, hint) =
            (format!("`{}` means {} workers", request.target, partners.len()), "name one by its id");
        return Err(refuse(ErrorCode::BadRequest, &error, Some(Page::Profiles.hint(hint))));
    };
    let worker = partner.worker.ok_or_else(|| cannot("the worker does not run", "start it first"))?;
    let entry = apps.get_mut(partner.app).ok_or_else(|| cannot("the app is gone", "see `forkful list`"))?;
    if !entry.primary.has_agent(worker) {
        let error = format!("worker {} runs without Forkful's agent, which takes profiles", partner.pm_id);
        return Err(cannot(&error, "the agent needs Node.js 18 or later, and `agent: true`"));
    }
    if order == ProfileOrder::Heap
        && !request.force
        && let Some((slot, generation)) = entry.find_worker(worker)
        && let Some(process) = entry.process(slot, generation)
        && let Some(heap) = heap_bytes(process)
    {
        heap_fits(heap, rooms(entry, process))
            .map_err(|little| cannot(&little.to_string(), "`--force` takes it all the same"))?;
    }
    let fault = |error: std::io::Error| refuse(ErrorCode::Internal, &error.to_string(), None);
    let (ours, theirs) = channel::pair_to_read(WRITE_PATIENCE).map_err(fault)?;
    entry.primary.order_profile(worker, &order, theirs, now);
    Ok(ours)
}

/// How large its heap is; before its agent has reported, all its memory.
fn heap_bytes(process: &Process) -> Option<u64> {
    let sample = process.metrics.last_sample();
    let bytes = sample.get("heap_used_bytes").or_else(|| sample.get("memory_bytes"))?;
    Some(bytes.max(0.0) as u64)
}

/// What is left of the memory that a worker may use.
fn rooms(entry: &App, process: &Process) -> Vec<Room> {
    let around = free_memory().into_iter().map(|free| {
        let of = if free.by_group { RoomOf::Group } else { RoomOf::Machine };
        Room { of, bytes: free.bytes }
    });
    let spec = entry.spec();
    let used_by_app = entry.group.as_ref().and_then(|group| group.usage().memory_bytes);
    let of_app = spec.limits.memory_bytes.zip(used_by_app);
    let of_app = of_app.map(|(most, used)| Room { of: RoomOf::MemoryMax, bytes: most.saturating_sub(used) });
    let most = spec.renewal.max_memory_bytes.or_else(|| entry.own_memory_limit());
    let used = process.metrics.last_sample().get("memory_bytes").map(|bytes| bytes.max(0.0) as u64);
    let of_worker = most
        .zip(used)
        .map(|(most, used)| Room { of: RoomOf::MemoryRestart, bytes: most.saturating_sub(used) });
    around.chain(of_app).chain(of_worker).collect()
}
