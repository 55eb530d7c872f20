//! `forkful scale`: changes an app's number of workers, absolutely or relatively. The daemon knows the
//! current number.

use forkful_api::types::ActionRequest;
use forkful_core::scale::{SCALE_HINT, ScaleTarget};

use super::act::{SCALE, act, request};
use super::targets::expand;
use crate::cli::ScaleArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: ScaleArgs) -> Result<Exit, Failure> {
    let target: ScaleTarget =
        args.number.parse().map_err(|error| Failure::new(Exit::WrongUse, error).hint(SCALE_HINT))?;
    let targets = expand(home, vec![args.target], &[]).await?;
    let request = ActionRequest { instances: Some(target), ..request(targets, args.no_wait) };
    act(home, SCALE, request, args.json).await
}
