//! `forkful list`: the table of workers. Never starts a daemon: without one there are no apps.

mod watch;

use clap::Args;
use forkful_api::types::{AppList, AppTable};
use forkful_os::wall_clock::now_ms;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::{Home, saved_apps};
use crate::output::format::count;
use crate::output::table::{Sort, TableShape};
use crate::output::{self, table};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful list
  forkful ls --sort memory:desc
  forkful ls --watch                 until q or Ctrl-C
  forkful ls --json | jq '.apps[].workers | length'")]
pub(crate) struct ListArgs {
    /// Sort the rows by id, name, namespace, pid, cpu, memory, uptime, status or restarts; `:desc` reverses the order.
    #[arg(long, value_name = "FIELD[:desc]", default_value = "id", hide_default_value = true)]
    pub(crate) sort: Sort,
    /// Refresh every second; a pipe gets one table after the other.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Compact table without borders.
    #[arg(long, short)]
    pub(crate) mini_list: bool,
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["sort", "watch", "mini_list"])]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &ListArgs) -> Result<Exit, Failure> {
    let shape = TableShape { sort: args.sort, plain: args.mini_list, ..TableShape::stdout() };
    if args.watch {
        return watch::run(home, shape).await;
    }
    if args.json {
        let mut list = match connection::running(home).await? {
            Some(mut client) => client.list_measured().await?,
            None => AppList::default(),
        };
        list.apps.iter_mut().for_each(|app| app.definition.redact_secrets());
        output::print_json(&list)?;
    } else {
        let list = table(home).await?;
        output::print(&table::workers(&list, now_ms(), &shape))?;
        for note in table::notes(&list, &shape).iter().chain(&list.notes) {
            output::note(note);
        }
    }
    Ok(Exit::Done)
}

/// The apps' data for the table.
async fn table(home: &Home) -> Result<AppTable, Failure> {
    match connection::running(home).await? {
        Some(mut client) => Ok(client.table().await?),
        None => Ok(AppTable { notes: saved(home).into_iter().collect(), ..AppTable::default() }),
    }
}

/// What is saved where no daemon runs. If the last daemon was killed, a warning has said so.
fn saved(home: &Home) -> Option<String> {
    let number =
        Some(saved_apps(home)).filter(|number| *number > 0 && !forkful_daemon::is_abandoned(home))?;
    Some(format!("no app is running; `forkful resurrect` starts {}", count(number, "saved app")))
}
