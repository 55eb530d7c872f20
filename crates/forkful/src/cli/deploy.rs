//! Options of `deploy`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Orders: setup, update (the default), revert [N], list, curr, prev, exec COMMAND, ref REFERENCE. All
hosts of a target are deployed in parallel. With `health`, the deployment waits until the version
is healthy, and with `rollback: true` it is rolled back if it is not.

Examples:
  forkful deploy production setup
  forkful deploy production
  forkful deploy ecosystem.config.js staging ref v1.4.0
  forkful deploy production revert 1
  forkful deploy production exec 'forkful list'")]
pub(crate) struct DeployArgs {
    /// A config file (default: the one in this directory), a target in its `deploy` section, an order.
    #[arg(required = true, value_name = "[CONFIG] TARGET [ORDER]")]
    pub(crate) words: Vec<String>,
    /// Deploy even if local changes are not committed or pushed.
    #[arg(long)]
    pub(crate) force: bool,
}
