//! The setting that a change gives an app, and the command for it.

use super::open_trial::ByHand;
use super::remedy::{Remedy, SEMI_SPACE_OPTION};
use crate::spec::environment::shown_arguments;
use crate::spec::{Balance, Named};
use crate::words::shell_word;

/// A setting that a change gives an app, or that the app had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    Workers(u16),
    PoolSize(u16),
    /// All arguments of the interpreter: a command replaces them.
    NodeArgs(Vec<String>),
    Balance(Balance),
}

impl Remedy {
    /// The setting for an app whose interpreter has these arguments.
    pub fn setting(self, node_args: &[String]) -> Setting {
        match self {
            Self::Workers(workers) => Setting::Workers(workers),
            Self::PoolSize(threads) => Setting::PoolSize(threads),
            Self::SemiSpace(megabytes) => with_option(node_args, SEMI_SPACE_OPTION, megabytes.into()),
            Self::HeapLimit(megabytes) => with_option(node_args, "--max-old-space-size", megabytes),
            Self::BalanceLeast => Setting::Balance(Balance::Least),
        }
    }
}

/// Whether an argument gives an option of V8, which reads `_` as `-`.
fn is_option(argument: &str, option: &str) -> bool {
    argument.split('=').next().unwrap_or_default().replace('_', "-") == option
}

/// The number that the arguments give an option of V8.
pub(super) fn option_value(node_args: &[String], option: &str) -> Option<f64> {
    let last = node_args.iter().rev().find(|argument| is_option(argument, option))?;
    last.split_once('=')?.1.trim().parse().ok()
}

/// The arguments with an option of V8, which takes the place of the same option.
fn with_option(node_args: &[String], option: &str, value: u32) -> Setting {
    let kept = node_args.iter().filter(|argument| !is_option(argument, option)).cloned();
    Setting::NodeArgs(kept.chain([format!("{option}={value}")]).collect())
}

impl Setting {
    /// The command that gives the app with this name the setting.
    pub fn command(&self, name: &str) -> String {
        let name = shell_word(name);
        match self {
            Self::Workers(workers) => format!("forkful scale {name} {workers}"),
            Self::PoolSize(threads) => format!("forkful reload {name} --env UV_THREADPOOL_SIZE={threads}"),
            Self::NodeArgs(args) => format!("forkful reload {name} --node-args={}", word(args)),
            Self::Balance(balance) => format!("forkful reload {name} --balance {}", balance.name()),
        }
    }

    /// Whether its command would show a secret.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::NodeArgs(args) if shown_arguments(args) != *args)
    }

    /// What gives the app with this name the setting of a remedy, without a value that may be a secret.
    pub(super) fn change_in_words(&self, name: &str) -> ByHand {
        match self {
            Self::NodeArgs(args) => match args.last() {
                Some(added) => ByHand::Words(format!(
                    "a reload that adds {added} to the `node_args` of {name} {UNSHOWN}"
                )),
                None => self.earlier_in_words(name),
            },
            _ => ByHand::Command(self.command(name)),
        }
    }

    /// What gives the app with this name an earlier setting, without a value that may be a secret.
    pub(super) fn earlier_in_words(&self, name: &str) -> ByHand {
        match self {
            Self::NodeArgs(_) => {
                ByHand::Words(format!("a reload that gives {name} its earlier `node_args` {UNSHOWN}"))
            }
            _ => ByHand::Command(self.command(name)),
        }
    }
}

/// How to get at arguments that a text does not show.
const UNSHOWN: &str = "(by `--node-args` or its configuration; they hold a secret, which is not shown)";

/// Arguments as one word of a shell, which has them as words of a shell; `null` for none.
fn word(args: &[String]) -> String {
    match args {
        [] => "null".to_owned(),
        several => {
            let words: Vec<_> = several.iter().map(|arg| shell_word(arg)).collect();
            shell_word(&words.join(" ")).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[&str]) -> Vec<String> {
        args.iter().map(|argument| (*argument).to_owned()).collect()
    }

    fn told(remedy: Remedy, node_args: &[&str]) -> String {
        remedy.setting(&args(node_args)).command("web")
    }

    #[test]
    fn a_change_of_nodes_arguments_keeps_the_others() {
        let young = Remedy::SemiSpace(64);
        assert_eq!(told(young, &[]), "forkful reload web --node-args=--max-semi-space-size=64");
        assert_eq!(
            told(young, &["--require", "./a b.cjs", "--max_semi_space_size=16", "--inspect"]),
            r"forkful reload web --node-args='--require '\''./a b.cjs'\'' --inspect --max-semi-space-size=64'"
        );
        assert_eq!(
            told(Remedy::HeapLimit(512), &["--max-old-space-size=256", "--max-old-space-size-percentage=40"]),
            "forkful reload web --node-args='--max-old-space-size-percentage=40 --max-old-space-size=512'"
        );
    }

    #[test]
    fn commands_give_settings() {
        let command = |setting: Setting| setting.command("web");
        assert_eq!(command(Setting::NodeArgs(Vec::new())), "forkful reload web --node-args=null");
        assert_eq!(command(Setting::Workers(2)), "forkful scale web 2");
        assert_eq!(command(Setting::PoolSize(16)), "forkful reload web --env UV_THREADPOOL_SIZE=16");
        assert_eq!(command(Setting::Balance(Balance::Least)), "forkful reload web --balance least");
    }

    #[test]
    fn a_command_that_would_show_a_secret_is_noticed() {
        let young = |node_args: &[&str]| Remedy::SemiSpace(64).setting(&args(node_args));
        assert!(young(&["--api-token=hunter2"]).is_secret());
        assert!(young(&["--title=token=hunter2"]).is_secret());
        assert!(!young(&["--inspect", "--max-old-space-size=512"]).is_secret());
    }
}
