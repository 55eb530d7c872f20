//! Options of `deploy`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Orders: setup, update (when none is given), revert [N], list, curr, prev, exec COMMAND, ref
REFERENCE. All hosts of a target are worked on at the same time. With `health` the deployment
waits until the version answers, and with `rollback: true` it goes back by itself when it does
not.

Examples:
  forkful deploy production setup
  forkful deploy production
  forkful deploy ecosystem.config.js staging ref v1.4.0
  forkful deploy production revert 1
  forkful deploy production exec 'forkful list'")]
pub(crate) struct DeployArgs {
    /// A config file if it is not this directory's, a target of its `deploy` section, an order.
    #[arg(required = true, value_name = "[CONFIG] TARGET [ORDER]")]
    pub(crate) words: Vec<String>,
    /// Deploy though something here is not committed or not pushed.
    #[arg(long)]
    pub(crate) force: bool,
}
