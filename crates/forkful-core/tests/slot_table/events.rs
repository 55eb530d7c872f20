//! The events that each state meets: a name, the event, and when it comes.

use forkful_core::slot::{Event, Exit, Generation, ReadySign, Ticket, Verb};

use super::BOUND_MS;

pub(super) fn commands() -> Vec<(&'static str, Event, u64)> {
    let verbs = [Verb::Start, Verb::Stop, Verb::Restart, Verb::Delete, Verb::Retire, Verb::Replace];
    let names = ["start", "stop", "restart", "delete", "retire", "replace"];
    let commands = names.into_iter().zip(verbs);
    commands.map(|(name, verb)| (name, Event::Command(verb, Ticket(2)), 100)).collect()
}

pub(super) fn happenings() -> Vec<(&'static str, Event, u64)> {
    let current = Generation(0);
    vec![
        ("listening 0", Event::Ready(current, ReadySign::Listening), 100),
        ("message 0", Event::Ready(current, ReadySign::Message), 100),
        ("listening 1", Event::Ready(Generation(1), ReadySign::Listening), 100),
        ("message 1", Event::Ready(Generation(1), ReadySign::Message), 100),
        ("spawn failed 0", Event::SpawnFailed(current, "no such file".into()), 0),
        ("spawn failed 1", Event::SpawnFailed(Generation(1), "no such file".into()), 0),
        ("code 0 of 0", Event::Exited(current, Exit::Code(0)), 100),
        ("code 3 of 0", Event::Exited(current, Exit::Code(3)), 100),
        ("code 1 of 0 after 60 s", Event::Exited(current, Exit::Code(1)), 60_000),
        ("signal 9 of 1", Event::Exited(Generation(1), Exit::Signal(9)), 100),
        ("early deadline", Event::Deadline, BOUND_MS - 1),
        ("deadline", Event::Deadline, BOUND_MS),
        ("drained 0", Event::Drained(current), 100),
        ("disconnected 0", Event::Disconnected(current), 100),
        ("reset", Event::Reset, 100),
    ]
}
