//! `forkful scale`: changes an app's number of workers, absolutely or relatively. The daemon knows the
//! current number.

use clap::Args;
use forkful_api::types::ActionRequest;
use forkful_core::scale::{SCALE_HINT, ScaleTarget};

use super::act::{SCALE, act, request};
use super::targets::expand;
use crate::cli::ActionArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful scale api 8
  forkful scale api +2
  forkful scale api -1
  forkful scale api max     one worker per core that this process may use")]
pub(crate) struct ScaleArgs {
    /// A name, id, namespace, `/pattern/` of names, script or config file; all apps that match are scaled.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) target: String,
    /// The new number of workers; +N and -N change the current number; `max`.
    #[arg(value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) number: String,
    #[command(flatten)]
    pub(crate) action: ActionArgs,
}

pub(super) async fn run(home: &Home, args: ScaleArgs) -> Result<Exit, Failure> {
    let target: ScaleTarget =
        args.number.parse().map_err(|error| Failure::new(Exit::WrongUse, error).hint(SCALE_HINT))?;
    let targets = expand(vec![args.target], &[])?;
    let request = ActionRequest { instances: Some(target), ..request(targets, args.action.no_wait) };
    act(home, SCALE, request, args.action.json).await
}
