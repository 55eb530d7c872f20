//! The experiments with a simulated machine.

use std::time::Duration;

use forkful_core::spec::Balance;

use super::meter::Meter;
use super::world::{Load, World};

/// If clients wait longer at the 99th percentile, the rate is too high.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// At a rate that is too high, a core that is busy for this share of the time is the bottleneck.
const FULL: f64 = 0.95;

/// By then the questions after a start are over.
const SETTLED: Duration = Duration::from_secs(40);

/// The result of a rate of new connections, each with one request.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Connections that were answered.
    pub answered: u64,
    /// CPU time of the daemon per connection.
    pub daemon_each: Duration,
    /// Share of one core.
    pub daemon_share: f64,
    /// Share of the workers' cores.
    pub workers_share: f64,
    /// From the first packet to the end of the request.
    pub p99: Duration,
    /// First packets dropped because of a full queue.
    pub dropped: u64,
    /// Changes of the kernel's steering.
    pub steers: u64,
}

/// The bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The core of the daemon's loop.
    Daemon,
    /// Cores have time left: the daemon waits for the reply to one probe before it sends the next.
    Turns,
    /// The cores of the workers.
    Workers,
}

/// The highest sustainable rate.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    pub per_second: f64,
    pub ends: Ends,
    /// Share of one core, at 10 % above the sustainable rate.
    pub daemon_share: f64,
}

/// An app with kept connections, and a reload of it.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// The daemon's CPU time for opening all connections, and for the reload.
    pub opening: Duration,
    pub reload: Duration,
    /// How long it took until all connections were back.
    pub reload_took: Duration,
    /// From requesting a connection to its first answer, during the reload.
    pub p99: Duration,
    pub longest: Duration,
    /// First packets dropped because of a full queue during the reload.
    pub dropped: u64,
    /// The connections of the fullest worker relative to the mean: after opening, after the reload, a minute
    /// later and ten minutes later.
    pub uneven: [f64; 4],
    /// The largest number of connections of a worker at any of these times.
    pub most: usize,
}

/// The state machine's own CPU time, on the real clock.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub exact_slow: Duration,
    pub exact_rush: Duration,
    pub least_rush: Duration,
    /// One sample of all queues in direct mode.
    pub look: Duration,
    /// Asking all workers for their number of kept connections.
    pub question: Duration,
    /// Replacing one worker.
    pub replaced: Duration,
}

/// One second at a rate.
pub fn rate(workers: u16, balance: Balance, handler: Duration, per_second: f64, time: Duration) -> Rate {
    let mut world = World::new(workers, balance, Load::Short { handler }, Meter::default());
    run_rate(&mut world, per_second, time)
}

fn run_rate(world: &mut World, per_second: f64, time: Duration) -> Rate {
    let workers = world.workers.len();
    world.daemon.busy = Duration::ZERO;
    world.arrive(per_second, u64::MAX);
    world.run_for(time);
    let answered = world.waits.len() as u64;
    let busy: Duration = world.workers.values().map(|worker| worker.busy).sum();
    let seconds = time.as_secs_f64();
    Rate {
        answered,
        daemon_each: world.daemon.busy / (answered.max(1) as u32),
        daemon_share: world.daemon.busy.as_secs_f64() / seconds,
        workers_share: busy.as_secs_f64() / seconds / workers as f64,
        p99: percentile(&mut world.waits, 99),
        dropped: world.dropped,
        steers: world.daemon.steers,
    }
}

fn percentile(waits: &mut [u32], of_100: usize) -> Duration {
    waits.sort_unstable();
    let at = (waits.len() * of_100 / 100).min(waits.len().saturating_sub(1));
    Duration::from_micros(waits.get(at).copied().unwrap_or(0).into())
}

/// The highest rate that is sustained for a while, to about 3 %.
pub fn most(workers: u16, balance: Balance, handler: Duration) -> Most {
    let each = super::costs::TAKE + super::costs::REQUEST + handler;
    let of_workers = f64::from(workers) / each.as_secs_f64();
    // At least 50 requests per worker.
    let time = (each * 50).max(Duration::from_millis(300));
    let run = |per_second: f64| rate(workers, balance, handler, per_second, time);
    let holds = |run: &Rate| run.p99 <= WAIT_MAX + handler * 4 && run.dropped == 0;
    let (mut low, mut high) = (0.0, of_workers);
    while high - low > 0.03 * high {
        let middle = f64::midpoint(low, high);
        if holds(&run(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let beyond = run(high * 1.1);
    let ends = match beyond {
        beyond if beyond.daemon_share > FULL => Ends::Daemon,
        beyond if beyond.workers_share < FULL && low < of_workers * 0.9 => Ends::Turns,
        _ => Ends::Workers,
    };
    Most { per_second: low, ends, daemon_share: beyond.daemon_share }
}

/// Opens kept connections at a rate, reloads, and waits.
pub fn kept(workers: u16, balance: Balance, connections: u64, per_second: f64) -> Kept {
    let mut world = World::new(workers, balance, Load::Kept, Meter::default());
    world.daemon.busy = Duration::ZERO;
    world.arrive(per_second, connections);
    while open(&world) < connections {
        world.run_for(Duration::from_millis(100));
    }
    let opening = std::mem::take(&mut world.daemon.busy);
    world.run_for(Duration::from_secs(1));
    let mut most = fullest(&world);
    let before = uneven(&world);
    (world.waits, world.dropped) = (Vec::new(), 0);
    world.daemon.busy = Duration::ZERO;
    let began = world.now;
    world.begin_reload();
    while !world.is_reloaded() || open(&world) < connections {
        world.run_for(Duration::from_millis(100));
    }
    let (reload, reload_took, dropped) = (world.daemon.busy, world.now.since(began), world.dropped);
    let longest = Duration::from_micros(world.waits.iter().max().copied().unwrap_or(0).into());
    let p99 = percentile(&mut world.waits, 99);
    most = most.max(fullest(&world));
    let after = uneven(&world);
    world.run_for(Duration::from_secs(60));
    let minute = uneven(&world);
    world.run_for(Duration::from_secs(540));
    let later = uneven(&world);
    Kept {
        opening,
        reload,
        reload_took,
        p99,
        longest,
        dropped,
        uneven: [before, after, minute, later],
        most: most.max(fullest(&world)),
    }
}

fn open(world: &World) -> u64 {
    world.workers.values().filter(|worker| !worker.drains).map(|worker| worker.kept.len() as u64).sum()
}

fn fullest(world: &World) -> usize {
    world.workers.values().map(|worker| worker.kept.len()).max().unwrap_or(0)
}

fn uneven(world: &World) -> f64 {
    fullest(world) as f64 * world.workers.len() as f64 / open(world).max(1) as f64
}

/// Measures the state machine: the minimum of several rounds, because other work on the machine disturbs
/// some.
pub fn machine(workers: u16) -> Machine {
    const ROUNDS: u32 = 7;
    let least = |measure: &dyn Fn() -> Duration| (0..ROUNDS).map(|_| measure()).min().unwrap_or_default();
    Machine {
        exact_slow: least(&|| handed_over(workers, Balance::Exact, 400.0)),
        exact_rush: least(&|| handed_over(workers, Balance::Exact, 15_000.0)),
        least_rush: least(&|| handed_over(workers, Balance::Least, 15_000.0)),
        look: least(&|| look(workers)),
        question: least(&|| question(workers)),
        replaced: least(&|| replaced(workers)),
    }
}

fn handed_over(workers: u16, balance: Balance, per_second: f64) -> Duration {
    let mut world = World::new(workers, balance, Load::Short { handler: Duration::ZERO }, Meter::on());
    world.run_for(SETTLED);
    world.meter.restart();
    let run = run_rate(&mut world, per_second, Duration::from_secs_f64(1000.0 / per_second));
    world.meter.spent() / (run.answered.max(1) as u32)
}

/// The samples of 0.2 s.
fn look(workers: u16) -> Duration {
    let mut world =
        World::new(workers, Balance::Direct, Load::Short { handler: Duration::ZERO }, Meter::on());
    world.run_for(SETTLED);
    world.meter.restart();
    run_rate(&mut world, f64::from(workers) * 1000.0, Duration::from_millis(200));
    world.meter.spent() / 100
}

/// The questions after a start.
fn question(workers: u16) -> Duration {
    let mut world = World::new(workers, Balance::Direct, Load::Kept, Meter::on());
    world.meter.restart();
    world.run_for(SETTLED);
    world.meter.spent() / 20
}

fn replaced(workers: u16) -> Duration {
    let mut world = World::new(workers, Balance::Direct, Load::Kept, Meter::on());
    world.run_for(SETTLED);
    world.meter.restart();
    world.begin_reload();
    while !world.is_reloaded() {
        world.run_for(Duration::from_millis(100));
    }
    world.meter.spent() / u32::from(workers)
}
