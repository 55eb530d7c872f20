//! `forkful env`: the environment that an app's workers get, without secrets.

use crate::cli::EnvArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{self, format};

pub(super) async fn run(home: &Home, args: &EnvArgs) -> Result<Exit, Failure> {
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::no_such_app(&args.target));
    };
    let reply = client.environment(&args.target, args.show_secrets).await?;
    if args.json {
        output::print_json(&reply)?;
        return Ok(Exit::Done);
    }
    let several = reply.apps.len() > 1;
    let mut text = String::new();
    for (app, variables) in &reply.apps {
        if several {
            text.push_str(&format!("{}\n", format::visible(app)));
        }
        for (name, value) in variables {
            text.push_str(&format!("{}: {}\n", format::visible(name), format::visible(value)));
        }
    }
    output::print(&text)?;
    Ok(Exit::Done)
}
