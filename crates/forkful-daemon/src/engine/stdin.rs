//! Writes text to the standard input of workers in fork mode.
//!
//! A pipe holds 64 KB of unread data; longer writes wait for the reader, outside of the event loop and with a
//! time limit.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use forkful_api::conversation::{WorkerReply, WorkersReply};
use forkful_core::spec::Mode;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::app::Stdin;
use super::apps::Apps;
use super::commands::answer;
use super::conversation::Partner;
use crate::command::Reply;

/// Time limit for a worker to read the text, which limits what a client can leave behind.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes a text to the stdin of several workers, and answers when all have accepted it or timed out.
pub(super) fn write_to_all(apps: &Apps, partners: Vec<Partner>, text: &str, reply: Reply<WorkersReply>) {
    let begin = |partner: Partner| {
        let stdin = stdin_of(apps, &partner);
        let text = text.to_owned();
        tokio::task::spawn_local(async move {
            let error = match stdin {
                Ok(stdin) => write(&stdin, text.as_bytes()).await.err(),
                Err(fault) => Some(fault.to_owned()),
            };
            WorkerReply { app: partner.name, pm_id: partner.pm_id, error, result: None }
        })
    };
    let writes: Vec<_> = partners.into_iter().map(begin).collect();
    tokio::task::spawn_local(async move {
        let mut workers = Vec::with_capacity(writes.len());
        for write in writes {
            // It ends early only with the daemon, and then no client waits for the answer.
            workers.extend(write.await);
        }
        answer(reply, Ok(WorkersReply { workers }));
    });
}

fn stdin_of(apps: &Apps, partner: &Partner) -> Result<Stdin, &'static str> {
    const CLUSTER: &str = "it runs in cluster mode, where workers have no stdin; \
                           `exec_mode: \"fork\"` gives it one";
    const GONE: &str = "it does not run";
    let entry = apps.get(&partner.app).ok_or(GONE)?;
    if entry.spec().mode == Mode::Cluster {
        return Err(CLUSTER);
    }
    let (slot, generation) = partner.worker.and_then(|worker| entry.find_worker(worker)).ok_or(GONE)?;
    let process = entry.process(slot, generation).ok_or(GONE)?;
    process.stdin.clone().ok_or(GONE)
}

/// Writes a complete text, or reports how much of it was accepted.
async fn write(stdin: &Stdin, text: &[u8]) -> Result<(), String> {
    let taken = Cell::new(0);
    match timeout(WRITE_TIMEOUT, write_all(stdin, text, &taken)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err("it has closed its stdin".to_owned())
        }
        Ok(Err(error)) => Err(format!("its stdin cannot be written to: {error}")),
        Err(_) => Err(format!(
            "it does not read its stdin: {} of {} bytes were taken within {} s",
            taken.get(),
            text.len(),
            WRITE_TIMEOUT.as_secs()
        )),
    }
}

async fn write_all(stdin: &Stdin, text: &[u8], taken: &Cell<usize>) -> io::Result<()> {
    // Exclusive until it is done, so that two texts are not mixed.
    let pipe = stdin.lock().await;
    let pipe = pipe::Sender::from_owned_fd(pipe.try_clone()?)?;
    while taken.get() < text.len() {
        pipe.writable().await?;
        match pipe.try_write(&text[taken.get()..]) {
            Ok(written) => taken.set(taken.get() + written),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
