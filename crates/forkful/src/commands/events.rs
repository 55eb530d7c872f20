//! `forkful events`: incidents of apps, such as crashes, and the details of one incident.

use std::time::Duration;

use clap::Args;
use forkful_api::client::{Client, ClientError};
use forkful_api::incidents::{IncidentSummary, IncidentsQuery};
use forkful_api::types::{ErrorReply, join_targets};
use forkful_core::pages::Page;
use forkful_core::targets::as_typed;
use forkful_daemon::{kept_incident, kept_incidents};
use forkful_os::wall_clock::now_ms;

use super::targets::expand;
use crate::cli::duration;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, events};

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Incidents are crashes, crash loops, failed reloads, failed health checks, stuck workers and full disks. The
newest is last; the last 200 are kept. Each has a number; `--show` prints its details.

Examples:
  forkful events
  forkful events api --since 1h
  forkful events --show 17
  forkful events -f
  forkful events --json | jq '.incidents[] | select(.kind == \"crash\")'")]
pub(crate) struct EventsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    /// Names of deleted apps work too.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print all details of one incident.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["targets", "since", "follow"])]
    pub(crate) show: Option<u64>,
    /// Only incidents of this last period, such as 10m or 2h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    /// Print new incidents as they happen.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Print JSON; with `--follow`, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Interval for checking for new incidents.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(home: &Home, args: EventsArgs) -> Result<Exit, Failure> {
    let client = connection::running(home).await?;
    if let Some(id) = args.show {
        let incident = match client {
            Some(mut client) => client.incident(id).await?,
            None => kept_incident(home, id).map_err(refused)?,
        };
        if args.json {
            output::print_json(&incident)?;
        } else {
            output::print(&events::incident(&incident, Paint::stdout()))?;
        }
        return Ok(Exit::Done);
    }
    let targets = expand(args.targets, &[])?;
    let since_ms = args.since.map_or(0, |since| now_ms().saturating_sub(since.as_millis() as u64));
    let query = IncidentsQuery { targets: join_targets(&targets), since_ms, after: 0 };
    let found = match client {
        Some(client) if args.follow => return follow(home, client, query, &targets, args.json).await,
        Some(mut client) => {
            let found = client.incidents(&query).await;
            found.map_err(|error| connection::refused_for(error, &client, &targets))?
        }
        None if args.follow => {
            return Err(Failure::new(Exit::NoDaemon, "no daemon is running, so nothing will happen")
                .hint("without `--follow`, `forkful events` shows what has happened")
                .see(Page::Daemon));
        }
        // What has happened is in files of the home.
        None => {
            let is_all = targets.is_empty() || targets.iter().any(|target| target == "all");
            let names = targets.iter().map(|target| as_typed(target).to_owned()).collect();
            kept_incidents(home, (!is_all).then_some(names), since_ms).map_err(refused)?
        }
    };
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&events::list(&found.incidents, Paint::stdout()))?;
    }
    Ok(Exit::Done)
}

fn refused(reply: ErrorReply) -> Failure {
    ClientError::Refused { reply }.into()
}

/// Prints what happened, and what happens from now on.
async fn follow(
    home: &Home,
    mut client: Client,
    mut query: IncidentsQuery,
    targets: &[String],
    json: bool,
) -> Result<Exit, Failure> {
    let found = client.incidents(&query).await;
    let mut found = found.map_err(|error| connection::refused_for(error, &client, targets))?;
    loop {
        for incident in &found.incidents {
            query.after = query.after.max(incident.id);
            show_one(incident, json)?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        found.incidents.clear();
        match client.incidents(&query).await {
            Ok(more) => found = more,
            // The app was deleted and had no incidents.
            Err(ClientError::Refused { .. }) => {}
            Err(error) => match connection::running(home).await? {
                // Another daemon has replaced it.
                Some(next) => client = next,
                None => return Err(error.into()),
            },
        }
    }
}

fn show_one(incident: &IncidentSummary, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string(incident).expect("our own types always have a JSON form");
        return output::print(&format!("{text}\n"));
    }
    output::print(&events::entry(incident, Paint::stdout()))
}
