//! Options of `forkful heap`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The worker stands still while the snapshot is taken, about a second for each 10 MB of heap, and needs about as much memory again.
The file holds everything that the app has in memory, secrets too. Load it in the Memory tab of Chrome's developer tools.
Docs: docs/PROFILES.md

Examples:
  forkful heap api                          the worker with the largest heap
  forkful heap 3                            the worker with this id
  forkful heap api --output before.heapsnapshot
  forkful heap api --force                  even where memory may not do")]
pub(crate) struct HeapArgs {
    /// A name of an app, or the id of a worker.
    #[arg(value_name = "APP|ID")]
    pub(crate) target: String,
    /// The file; by default a new one in this folder, named after app, worker and time.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    /// Take it even if there seems to be too little memory; the worker may be killed then.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
