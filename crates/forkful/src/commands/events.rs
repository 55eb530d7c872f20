//! `forkful events`: incidents of apps, such as crashes, and the details of one incident.

use std::time::Duration;

use forkful_api::client::ClientError;
use forkful_api::incidents::{IncidentSummary, IncidentsQuery};
use forkful_api::types::join_targets;
use forkful_core::pages::Page;
use forkful_os::wall_clock::now_ms;

use super::targets::expand;
use crate::cli::EventsArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, events};

/// Interval for checking for new incidents.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(home: &Home, args: EventsArgs) -> Result<Exit, Failure> {
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::new(Exit::NoDaemon, "no daemon is running; incidents are read from a daemon")
            .hint("`forkful resurrect` starts a daemon and the saved apps")
            .see(Page::Daemon));
    };
    if let Some(id) = args.show {
        let incident = client.incident(id).await?;
        if args.json {
            output::print_json(&incident)?;
        } else {
            output::print(&events::incident(&incident, Paint::stdout()))?;
        }
        return Ok(Exit::Done);
    }
    let targets = expand(home, args.targets, &[]).await?;
    let since = args.since.map_or(0, |since| now_ms().saturating_sub(since.as_millis() as u64));
    let mut query = IncidentsQuery { targets: join_targets(&targets), since_ms: since, after: 0 };
    let mut found = client.incidents(&query).await?;
    if !args.follow {
        if args.json {
            output::print_json(&found)?;
        } else {
            output::print(&events::list(&found.incidents, Paint::stdout()))?;
        }
        return Ok(Exit::Done);
    }
    loop {
        for incident in &found.incidents {
            query.after = query.after.max(incident.id);
            show_one(incident, args.json)?;
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
