//! `forkful scale`: changes an app's number of workers, to a number or by one.

use forkful_api::types::ActionRequest;
use forkful_core::spec::INSTANCES_MAX;

use super::act::{SCALE, Words, act, request};
use super::targets::{apps, client_for, expand};
use crate::cli::ScaleArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format;

pub(super) async fn run(home: &Home, args: ScaleArgs) -> Result<Exit, Failure> {
    let change = Change::parse(&args.number).ok_or_else(|| {
        Failure::new(Exit::WrongUse, format!("invalid worker count `{}`", args.number))
            .hint("write a number from 1, `max`, or a change as +2 or -1")
    })?;
    let targets = expand(home, vec![args.target], &[]).await?;
    let present = present(home, &targets).await?;
    let wanted = change.apply(present, forkful_os::cores::usable_cores().count);
    let instances = u16::try_from(wanted).ok().filter(|wanted| (1..=INSTANCES_MAX).contains(wanted));
    let Some(instances) = instances else {
        let error = format!("an app has 1 to {INSTANCES_MAX} workers, but this would make {wanted}");
        return Err(Failure::new(Exit::WrongUse, error).hint("`forkful stop` stops all workers of an app"));
    };
    let workers = format::count(usize::from(instances), "worker");
    let words = Words { done: &format!("scaled from {present} to {workers}"), ..SCALE };
    let request = ActionRequest { instances: Some(instances), ..request(targets, args.no_wait) };
    act(home, words, request, args.json).await
}

/// How many workers the app has now.
async fn present(home: &Home, targets: &[String]) -> Result<i64, Failure> {
    let mut client = client_for(home, targets).await?;
    match apps(&mut client, targets).await?.as_slice() {
        [app] => Ok(i64::from(app.definition.instances)),
        many => {
            Err(Failure::new(Exit::WrongUse, format!("`{}` means {} apps", targets.join(", "), many.len()))
                .hint("scale them one by one, by name"))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    To(u16),
    By(i32),
    Max,
}

impl Change {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "max" => Some(Self::Max),
            _ if text.starts_with(['+', '-']) => text.parse().ok().map(Self::By),
            _ => text.parse().ok().map(Self::To),
        }
    }

    fn apply(self, present: i64, cores: u16) -> i64 {
        match self {
            Self::To(number) => i64::from(number),
            Self::By(change) => present + i64::from(change),
            Self::Max => i64::from(cores),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_a_change_or_max() {
        let parsed = ["4", "+2", "-1", "max", "", "x", "1.5", "+", "70000"].map(Change::parse);
        let none = None;
        assert_eq!(
            parsed,
            [
                Some(Change::To(4)),
                Some(Change::By(2)),
                Some(Change::By(-1)),
                Some(Change::Max),
                none,
                none,
                none,
                none,
                none
            ]
        );
        assert_eq!(Change::By(-3).apply(2, 8), -1);
        assert_eq!(Change::Max.apply(2, 8), 8);
    }
}
