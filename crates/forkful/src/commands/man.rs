//! `forkful man`: writes the man pages, for package maintainers.

use anyhow::Context as _;
use clap::Args;

use crate::cli::man;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder; created if it does not exist.
    pub(crate) folder: std::path::PathBuf,
}

pub(super) fn run(args: &ManArgs) -> Result<Exit, Failure> {
    write(args).map_err(|error| Failure::caused(Exit::Failed, error))?;
    Ok(Exit::Done)
}

fn write(args: &ManArgs) -> anyhow::Result<()> {
    fs_err::create_dir_all(&args.folder)?;
    for page in man::pages().context("cannot make the man pages")? {
        fs_err::write(args.folder.join(page.file_name), page.text)?;
    }
    Ok(())
}
