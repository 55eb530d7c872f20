//! `forkful heap`: a heap snapshot of one worker, as it comes, into a file.

use std::path::PathBuf;

use clap::Args;
use forkful_api::profile::{HeapReply, ProfileRequest};

use super::profile_file::{ProfileFile, name_of, taken};
use super::profiled::{Load, worker_of};
use super::targets::{client_for, described, expand};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::output::{self, format};

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

pub(super) async fn run(home: &Home, args: &HeapArgs) -> Result<Exit, Failure> {
    let targets = expand(vec![args.target.clone()], &[])?;
    let mut client = client_for(home, &targets).await?;
    let found = described(&mut client, &targets).await?;
    let [app] = found.as_slice() else {
        let error =
            format!("a heap snapshot is about one worker, but `{}` means {} apps", args.target, found.len());
        return Err(Failure::new(Exit::WrongUse, error).hint("name the app, or a worker by its id"));
    };
    let pm_id = worker_of(app, &targets, Load::Heap)?;
    let named = || PathBuf::from(name_of(&app.definition.name, pm_id, "heapsnapshot"));
    let path = args.output.clone().unwrap_or_else(named);
    if args.output.is_some() && !args.overwrite && path.exists() {
        return Err(taken(&path));
    }
    let mut file = ProfileFile::begin(&path)?;
    let progress = Progress::start(format!("worker {pm_id} stands still for its snapshot"));
    let mut reader = client.profile(&ProfileRequest::heap(pm_id.to_string(), args.force)).await?;
    let mut bytes = 0;
    while let Some(piece) = reader.next().await? {
        file.write(&piece)?;
        bytes += piece.len() as u64;
        progress.say(format!("taking the snapshot of worker {pm_id}: {}", format::bytes(bytes)));
    }
    drop(progress);
    let path = if args.output.is_some() {
        file.keep(args.overwrite)?;
        path
    } else {
        file.keep_beside_others()?.0
    };
    let file = std::path::absolute(&path).unwrap_or(path);
    if args.json {
        output::print_json(&HeapReply { worker: pm_id, file, bytes })?;
    } else {
        let shown = format::visible(&file.display().to_string());
        output::print(&format!(
            "worker {pm_id}: {} written to {shown}\nload it in the Memory tab of Chrome's developer tools; it holds all that the app has in memory\n",
            format::bytes(bytes)
        ))?;
    }
    Ok(Exit::Done)
}
