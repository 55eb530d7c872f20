//! `forkful dashboard`: prints a link to the daemon's page, and opens it in a browser if there is one.

mod page;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use forkful_api::dashboard::DashboardRequest;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::format::bound;
use crate::terminal;

#[derive(Debug, Args)]
#[command(after_help = "\
The link works once, for a browser on this machine. From another machine, forward the port first:
  ssh -L 4000:127.0.0.1:PORT server    and open the link with port 4000

Examples:
  forkful dashboard
  forkful dashboard --control
  forkful dashboard --reports ./results
  forkful dashboard --no-open --json | jq -r .url")]
pub(crate) struct DashboardArgs {
    /// Let the page restart, reload, scale and stop apps.
    #[arg(long)]
    pub(crate) control: bool,
    /// Let the page list and open the reports of `bench`, `compare`, `tune` and `experiment` (`*.json`, `*.html`) in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) reports: Option<PathBuf>,
    /// Print the link only.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Print JSON without opening a browser.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Set in desktop sessions.
const DESKTOP: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

/// Opens a file in the user's browser.
const OPENER: &str = "xdg-open";

pub(super) async fn run(home: &Home, args: &DashboardArgs) -> Result<Exit, Failure> {
    let reports = args.reports.as_deref().map(folder).transpose()?;
    let (mut client, ran_before) = connection::needed(home).await?;
    ran_before.tell([]);
    let link = client.dashboard(&DashboardRequest { control: args.control, reports }).await?;
    if args.json {
        output::print_json(&link)?;
        return Ok(Exit::Done);
    }
    output::print(&format!("{}\n", link.url))?;
    let may = if args.control { "may restart, reload, scale and stop apps" } else { "is read-only" };
    let life = bound(link.expires_in_ms);
    output::note(&format!("the link works once, within {life}; the page {may}"));
    if !args.no_open && terminal::is_interactive() && has_desktop() {
        open(home, &link.url);
    }
    Ok(Exit::Done)
}

/// The absolute path of a folder of reports.
fn folder(path: &Path) -> Result<PathBuf, Failure> {
    let found = std::path::absolute(path).ok().filter(|path| path.is_dir());
    found.ok_or_else(|| Failure::new(Exit::WrongUse, format!("there is no folder {}", path.display())))
}

fn has_desktop() -> bool {
    DESKTOP.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The link is printed, so a missing browser does not matter. The process is not waited for: it removes the page later.
fn open(home: &Home, url: &str) {
    let page = match page::write(home.path(), url) {
        Ok(page) => page,
        Err(error) => return output::note(&format!("open the link in a browser: {error}")),
    };
    match page::open(OsStr::new(OPENER), &page, page::PAGE_LIFE) {
        Ok(_process) => output::note(&format!(
            "the browser reads the link from {}; a browser in a sandbox may be unable to: then open the link yourself",
            page.display()
        )),
        Err(_) => page::remove(&page),
    }
}
