//! `forkful man`: writes the man pages, for package maintainers.

use anyhow::Context as _;

use crate::cli::{ManArgs, man};
use crate::exit::{Exit, Failure};

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
