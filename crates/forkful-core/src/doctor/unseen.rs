//! What the doctor does not see in the portable mode (docs/MACOS.md).

use super::{App, Signs};

/// Connections are spread by other means in this mode, on every system.
const SPREAD: &str = "how the kernel spreads connections: the daemon hands them over here, so requests per second and the \
                      balance between workers differ from those of a server";

/// Figures that some systems do not have, and what follows for a verdict.
const FIGURES: [(fn(&Signs) -> bool, &str); 5] = [
    (
        |signs| signs.cpu_wait.is_some(),
        "the wait for a CPU core: a worker that waits for a core counts as blocked in a call",
    ),
    (|signs| signs.throttled.is_some(), "CPU quotas: there is no verdict about them"),
    (
        |signs| signs.pool_threads.is_some(),
        "the thread pool of Node.js: there is no verdict about it, and its CPU time counts as the main thread's",
    ),
    (|signs| signs.accept_queue.is_some(), "connections that are not accepted yet"),
    (|signs| signs.swap_bytes.is_some(), "memory in swap: there is no verdict about it"),
];

/// What was not measured, a line each. A figure counts as measured if any second of any worker has it.
pub fn unseen<'a>(apps: impl IntoIterator<Item = &'a App>) -> Vec<&'static str> {
    let workers = apps.into_iter().flat_map(|app| &app.workers);
    let seconds: Vec<&Signs> = workers.flat_map(|worker| &worker.seconds).collect();
    let missing = FIGURES.iter().filter(|(is_known, _)| !seconds.iter().any(|signs| is_known(signs)));
    std::iter::once(SPREAD).chain(missing.map(|(_, text)| *text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::WorkerSeconds;

    fn app(seconds: Vec<Signs>) -> App {
        let workers = vec![WorkerSeconds { slot: 0, seconds }];
        App {
            name: "a".to_owned(),
            cores: 2.0,
            is_scalable: true,
            bounds: None,
            workers,
            node_args: Vec::new(),
            refusing: None,
        }
    }

    #[test]
    fn figures_that_no_second_has_are_told() {
        let of_macos = Signs { main_cpu: Some(0.5), memory_bytes: Some(1e6), ..Signs::default() };
        assert_eq!(unseen([&app(vec![of_macos; 3])]).len(), 1 + FIGURES.len());
        let of_linux = Signs {
            cpu_wait: Some(0.0),
            throttled: Some(0.0),
            pool_threads: Some(4.0),
            accept_queue: Some(0.0),
            swap_bytes: None,
            ..of_macos
        };
        // Swap is read more rarely than the rest.
        let rare = Signs { swap_bytes: Some(0.0), ..of_linux };
        assert_eq!(unseen([&app(vec![of_linux, rare])]), [SPREAD]);
        let without_quota = Signs { throttled: None, ..rare };
        assert_eq!(unseen([&app(vec![without_quota])]), [SPREAD, FIGURES[1].1]);
    }
}
