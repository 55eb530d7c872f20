//! `forkful heap`: a heap snapshot of one worker, as it comes, into a file.

use std::path::PathBuf;

use forkful_api::profile::{HeapReply, ProfileRequest};

use super::profile_file::{ProfileFile, name_of, taken};
use super::profiled::{Load, worker_of};
use super::targets::{client_for, described, expand};
use crate::cli::HeapArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::output::{self, format};

pub(super) async fn run(home: &Home, args: &HeapArgs) -> Result<Exit, Failure> {
    let targets = expand(home, vec![args.target.clone()], &[]).await?;
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
