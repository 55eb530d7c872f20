//! A world: the machine, the daemon and its clients on one clock, and the event loop.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::supervisor::AppId;

use crate::daemon::{Clients, Daemon, Kept};
use crate::definition;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::machine::{Deed, Machine, Phase, Pid};
use crate::net::{Net, Trouble};
use crate::plan::Plan;
use crate::plant::Plant;
use crate::queue::{Happening, Queue};
use crate::script::{Action, Step};
use crate::watch::{Broken, Invariant, Watch};

/// A planted fault occurs at one of this many opportunities.
const PLANT_EVERY: u64 = 4;
/// In one of this many events, the state that would be written is read back.
const READ_EVERY: usize = 128;
/// After this time everything has come to rest; health checks never end.
const CALM: Duration = Duration::from_secs(900);
/// Maximum duration of a renewal that is in progress then.
const RENEWED: Duration = Duration::from_secs(300);
/// More events than any world needs to come to rest; reaching it means an endless loop.
const CALM_EVENTS_MAX: usize = 20_000;
/// In this time there is a maximum number of connection events.
const BUSY_SPAN: Duration = Duration::from_millis(100);
const BUSY_MAX: usize = 20_000;

/// See the module's documentation.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) machine: Machine,
    pub(crate) daemon: Daemon,
    pub(crate) kept: Kept,
    pub(crate) clients: Clients,
    pub(crate) watch: Watch,
    pub(crate) plant: Option<Plant>,
    /// Faults are over.
    pub(crate) calm: bool,
    pub(crate) calm_since: Option<Time>,
    pub(crate) trace: Option<Vec<String>>,
    /// The number of events so far.
    pub(crate) events: usize,
    /// The number of performed effects of supervisors, without checks.
    pub(crate) notable: usize,
    /// The number of executed steps of the script.
    pub(crate) steps: usize,
    /// The start of the current period for counting connection events, and the count at that time.
    busy: (Time, usize),
    script: Rc<[Step]>,
    /// The number of daemons that started from the saved state.
    pub(crate) life: u32,
    /// The number of daemons.
    pub(crate) daemons: u32,
    pub(crate) disk: Disk,
    queue: Queue,
    /// The load of apps is measured.
    pub(crate) measures: bool,
    pub(crate) dice: Dice,
    seed: u64,
    pub(crate) net: Net,
}

impl World {
    pub(crate) fn new(seed: u64, script: Rc<[Step]>, plant: Option<Plant>, traces: bool) -> Self {
        let mut world = Self {
            now: Time::default(),
            machine: Machine::default(),
            daemon: Daemon::new(seed),
            kept: Kept::default(),
            clients: Clients::default(),
            watch: Watch::default(),
            plant,
            calm: false,
            calm_since: None,
            trace: traces.then(Vec::new),
            events: 0,
            notable: 0,
            steps: 0,
            busy: (Time::default(), 0),
            script,
            life: 0,
            daemons: 0,
            disk: Disk::default(),
            queue: Queue::default(),
            measures: false,
            dice: Dice::of(&[seed, 2]),
            seed,
            net: Net::default(),
        };
        world.schedule_step();
        world
    }

    /// Runs until an invariant is violated, or until everything is at rest after this many events.
    pub(crate) fn run(&mut self, events: usize) -> Option<Broken> {
        // A short script may leave apps whose timers recur without changing anything.
        let mut last = (self.events, self.now);
        let goes_on = |world: &Self, quiet_since| world.events < events && world.now < quiet_since + CALM;
        while self.watch.broken.is_none() && goes_on(self, last.1) && self.happen() {
            if self.events > last.0 {
                last = (self.events, self.now);
            }
        }
        self.calm = true;
        self.calm_since = Some(self.now);
        self.release_hung();
        self.hang_one_that_is_watched();
        self.trace(|| "from now on nothing goes wrong".to_owned());
        let most = self.events + CALM_EVENTS_MAX;
        let end = self.now + CALM;
        let goes_on = |world: &Self| world.now < end || world.now < end + RENEWED && world.renews();
        while self.watch.broken.is_none() && self.events < most && goes_on(self) && self.happen() {}
        if self.watch.broken.is_none() {
            self.check_rest(self.events >= most);
        }
        self.watch.broken.take()
    }

    /// Handles the next event; returns false if there is none.
    fn happen(&mut self) -> bool {
        let notable = self.notable;
        let is_counted = loop {
            let Some((at, happening)) = self.queue.pop() else { return false };
            if at > self.now {
                self.check_deadlines(at);
                self.now = at;
            }
            let was_dead = self.kept.is_dead;
            let copy = self.kept.is_dying().then(|| happening.clone());
            let (is_of_connections, is_wake) =
                (happening.is_of_connections(), matches!(happening, Happening::Wake | Happening::Measure));
            if !self.handle(happening) {
                continue;
            }
            if let Some(copy) = copy.filter(|_| self.kept.is_dead && !was_dead) {
                self.untold(&copy);
            }
            self.net.happened += usize::from(is_of_connections);
            break (!is_of_connections, is_wake);
        };
        if self.now > self.busy.0 + BUSY_SPAN {
            self.busy = (self.now, self.net.happened);
        } else if self.net.happened - self.busy.1 > BUSY_MAX {
            self.watch.fail(Invariant::NeverSpins, "connections keep the daemon busy for ever");
        }
        if !self.kept.is_dead {
            self.turn();
        }
        if !self.kept.is_dead {
            self.check();
            self.check_net();
        }
        let (is_event, is_wake) = is_counted;
        // A check that changes nothing does not count.
        self.events += usize::from(is_event && (!is_wake || self.notable > notable));
        true
    }

    /// Handles an event; returns false if it concerns nobody.
    pub(crate) fn handle(&mut self, happening: Happening) -> bool {
        match &happening {
            Happening::TakeOver if !self.kept.is_dead => return false,
            Happening::Act
            | Happening::Wake
            | Happening::Written(_)
            | Happening::Patience(_)
            | Happening::NextStep(_)
            | Happening::TakeOver => {}
            Happening::Revive(life) if *life != self.life => return false,
            Happening::Revive(_)
            | Happening::Connect(_)
            | Happening::GiveUp(_)
            | Happening::Finish(_)
            | Happening::Turn(_)
            | Happening::Heard(_)
            | Happening::Ring(_)
            | Happening::NetWake
            | Happening::Measure
            | Happening::CountCloses => {}
            Happening::Begin(pid)
            | Happening::StartOver(pid)
            | Happening::GiveUpStart(pid)
            | Happening::Deed(pid, _)
            | Happening::Told(pid, _)
            | Happening::Asked(pid, ..)
            | Happening::Warmed(pid, _)
            | Happening::Seen(pid) => {
                let Some(process) = self.machine.processes.get(*pid) else { return false };
                let is_over = process.phase == Phase::Dead;
                if is_over && matches!(happening, Happening::Deed(..)) {
                    return false;
                }
            }
        }
        self.trace_happening(&happening);
        if self.kept.is_dead {
            return self.happen_unseen(happening);
        }
        match happening {
            Happening::Act if self.calm => return false,
            Happening::Act => self.act(),
            Happening::Wake => return self.on_wake(),
            Happening::Written(write) => return self.on_written(write),
            Happening::Patience(request) => return self.lose_patience(request),
            Happening::Revive(_) => self.revive(),
            Happening::Begin(pid) => self.begin_start(pid),
            Happening::StartOver(pid) => self.on_start_over(pid),
            Happening::GiveUpStart(pid) => self.fail_start(pid, "no answer within 10 s"),
            Happening::Deed(pid, deed) => self.perform_deed(pid, deed),
            Happening::Told(pid, deed) => self.tell(pid, &deed),
            Happening::Asked(pid, daemon, by) => return self.on_asked(pid, daemon, by),
            Happening::Warmed(pid, daemon) => return self.on_warmed(pid, daemon),
            Happening::TakeOver => self.take_over(),
            Happening::Seen(pid) => self.on_seen(pid),
            Happening::Connect(connection) => return self.connect(connection),
            Happening::GiveUp(connection) => return self.client_gives_up(connection),
            Happening::Finish(connection) => return self.finish(connection),
            Happening::Turn(pid) => return self.turn_loop(pid),
            Happening::Heard(pid) => return self.hear(pid),
            Happening::Ring(app) => return self.ring(app),
            Happening::NetWake => return self.on_net_wake(),
            Happening::CountCloses => self.count_closes(true),
            Happening::Measure => self.measure(),
            Happening::NextStep(request) => return self.go_on_with_plan(request),
        }
        true
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the daemon has a keeper: in two worlds of three.
    pub(crate) fn has_keeper(&self) -> bool {
        !self.seed.is_multiple_of(3)
    }

    fn trace_happening(&mut self, happening: &Happening) {
        if let Some(trace) = &mut self.trace
            && !matches!(
                happening,
                Happening::Act | Happening::Wake | Happening::NetWake | Happening::Measure
            )
        {
            trace.push(format!("{:9.3} s  {happening:?}", self.now.since_start().as_secs_f64()));
        }
    }

    fn schedule_step(&mut self) {
        if let Some(step) = self.script.get(self.steps) {
            let at = Time::from_start(step.at).max(self.now);
            self.at(at, Happening::Act);
        }
    }

    /// Performs the next step of the script.
    pub(crate) fn act(&mut self) {
        let script = Rc::clone(&self.script);
        let Some(step) = script.get(self.steps) else { return };
        self.steps += 1;
        let now = self.now;
        self.trace(|| format!("{:9.3} s  {}", now.since_start().as_secs_f64(), step.action));
        match &step.action {
            // The client finds no daemon, and the system reports that.
            Action::Start { .. } | Action::Command { .. } if self.kept.is_dead => {}
            Action::Renew(..) | Action::Stray(..) | Action::EarlyDeadline(_) if self.kept.is_dead => {}
            Action::Apply { .. } | Action::Resurrect | Action::Touch(_) if self.kept.is_dead => {}
            Action::Trouble(Trouble::Chatter(..) | Trouble::Nonsense(_)) if self.kept.is_dead => {}
            Action::Start { definitions, wait } => self.start(definitions, *wait),
            Action::Command { verb, target, change, wait } => self.command(*verb, *target, *change, *wait),
            Action::Leave(number) => self.clients.leave(*number),
            Action::Renew(app, slot) => self.renew(*app, *slot),
            Action::Kill(number) => {
                if let Some(pid) = self.machine.nth_living(*number) {
                    let deed = Deed::Die(forkful_core::slot::Exit::Signal(9));
                    self.after(Duration::ZERO, Happening::Deed(pid, deed));
                }
            }
            Action::Hang(number) => {
                if let Some(pid) = self.machine.nth_living(*number) {
                    self.hang(pid);
                    // Usually somebody restores the apps.
                    if self.dice.percent(70) {
                        let after = self.dice.millis(0, 10_000);
                        let deed = Deed::Die(forkful_core::slot::Exit::Signal(9));
                        self.after(after, Happening::Deed(pid, deed));
                    }
                }
            }
            Action::Stray(number, stray) => self.stray(*number, *stray),
            Action::EarlyDeadline(number) => self.early_deadline(*number),
            Action::Crash => self.crash(),
            Action::Die(things) => self.die_after(*things),
            Action::Resurrect => self.resurrect(),
            Action::FillDisk(span) => self.disk.full_until = self.now + *span,
            Action::Apply { definitions, prune } => self.apply(definitions, *prune),
            Action::Touch(app) => self.touch_files(*app),
            Action::Rush(rush) => self.rush(*rush),
            Action::Trouble(trouble) => self.trouble(*trouble),
            Action::RefuseStarts(span) => self.machine.refuses_until = self.now + *span,
        }
        self.schedule_step();
    }

    pub(crate) fn after(&mut self, span: Duration, happening: Happening) {
        self.at(self.now + span, happening);
    }

    pub(crate) fn at(&mut self, at: Time, happening: Happening) {
        let tie = self.dice.bits();
        self.queue.push(at, tie, happening);
    }

    /// The plan for the process of this generation.
    pub(crate) fn plan_of(&self, app: AppId, slot: u16, generation: Generation) -> Plan {
        let words = [
            self.seed,
            3 + (u64::from(self.life) << 8),
            u64::from(app.0),
            u64::from(slot),
            u64::from(generation.0),
        ];
        let mut dice = Dice::of(&words);
        let spec = self.daemon.apps.get(&app).map(|entry| entry.supervisor.spec());
        let ports =
            spec.map(|spec| definition::ports_of(spec, self.machine.ordered() + 1)).unwrap_or_default();
        match spec.filter(|_| !self.calm) {
            Some(spec) => Plan::of(definition::quality_of(spec), &ports, &mut dice),
            None => Plan::good(&ports, &mut dice),
        }
    }

    /// Whether an action of a process is its app's ready sign.
    pub(crate) fn accepts(&self, pid: Pid, deed: &Deed) -> bool {
        let Deed::Ready(sign) = deed else { return false };
        let Some(process) = self.machine.processes.get(pid) else { return false };
        let entry = self.daemon.apps.get(&process.whose.0);
        entry.is_some_and(|entry| entry.supervisor.policy().accepts(*sign))
    }

    /// Whether this is the planted fault, and whether it occurs now.
    pub(crate) fn plants(&mut self, plant: Plant) -> bool {
        self.plant == Some(plant) && self.dice.below(PLANT_EVERY) == 0
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Whether the state that is written now is read back and compared: for a part of all writes.
    pub(crate) fn is_checked(&self) -> bool {
        self.events.is_multiple_of(READ_EVERY)
    }

    /// Time advances: everything due was performed.
    fn check_deadlines(&mut self, to: Time) {
        if self.kept.is_dead {
            return;
        }
        if let Some(at) = self.daemon.next_wake().filter(|at| *at < to) {
            let seen = format!("a deadline at {:.3} s has passed", at.since_start().as_secs_f64());
            self.watch.fail(Invariant::DeadlinesKept, seen);
        }
        self.check_clock(to);
    }
}
