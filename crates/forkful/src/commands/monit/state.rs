//! What `monit` knows and shows: the apps, which line is chosen, the output of that one, and what is asked
//! of the user. Nothing here talks to a daemon or to a terminal.

use std::cell::Cell;
use std::collections::VecDeque;

use forkful_api::types::{AppList, AppView, LogLine, WorkerView};

use super::history::History;
use super::plain::plain;
use crate::commands::act::Words;

/// Lines of output that are kept; older ones are in the files.
pub(super) const LINES_MAX: usize = 2000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) list: AppList,
    pub(super) now_ms: u64,
    /// Why there is no list, or why it is old.
    pub(super) fault: Option<String>,
    /// The chosen line, by what it means, so that it stays when others come and go.
    pub(super) chosen: Option<Choice>,
    /// Only apps whose name or group holds this.
    pub(super) app_filter: String,
    pub(super) output: Output,
    pub(super) focus: Focus,
    pub(super) mode: Mode,
    /// What became of the last thing that was done.
    pub(super) told: Option<Told>,
    /// The order of the apps.
    pub(super) order: Order,
    /// CPU and memory of each line in the last minute.
    pub(super) history: History,
}

/// The order of the apps in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// As `forkful list` has them.
    #[default]
    Id,
    Name,
    Cpu,
    Memory,
    Restarts,
}

impl Order {
    /// What the key for the order changes to.
    pub(super) fn next(self) -> Self {
        let all = [Self::Id, Self::Name, Self::Cpu, Self::Memory, Self::Restarts];
        let place = all.iter().position(|order| *order == self).map_or(0, |place| place + 1);
        all[place % all.len()]
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Restarts => "restarts",
        }
    }

    /// Large numbers first.
    fn apply(self, apps: &mut [&AppView]) {
        let cpu = |app: &AppView| app.workers.iter().map(|worker| worker.cpu_percent).sum::<f32>();
        let memory = |app: &AppView| app.workers.iter().map(|worker| worker.memory_bytes).sum::<u64>();
        let restarts = |app: &AppView| app.workers.iter().map(|worker| worker.restarts).sum::<u32>();
        match self {
            Self::Id => {}
            Self::Name => apps.sort_by(|one, other| one.definition.name.cmp(&other.definition.name)),
            Self::Cpu => apps.sort_by(|one, other| cpu(other).total_cmp(&cpu(one))),
            Self::Memory => apps.sort_by_key(|app| std::cmp::Reverse(memory(app))),
            Self::Restarts => apps.sort_by_key(|app| std::cmp::Reverse(restarts(app))),
        }
    }
}

/// What a line of the list means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Choice {
    App(String),
    Worker(u32),
}

impl Choice {
    /// The same as a target of the API.
    pub(super) fn target(&self) -> String {
        match self {
            Self::App(name) => name.clone(),
            Self::Worker(pm_id) => pm_id.to_string(),
        }
    }
}

/// Where keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Focus {
    #[default]
    Apps,
    Output,
}

/// What the keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    Look,
    /// A filter of the pane that has the focus is written.
    Filter,
    Help,
    /// Something is about to be done, if the user says so.
    Confirm(Action),
}

/// Something to be done to an app or to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) words: Words<'static>,
    /// `scale`: to this number of workers.
    pub(super) instances: Option<u16>,
    pub(super) target: Choice,
    /// Whom it concerns, in words.
    pub(super) whom: String,
}

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) is_fault: bool,
}

/// A line of the list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Row<'a> {
    /// An app with all its workers.
    App(&'a AppView),
    /// One of several workers.
    Worker(&'a AppView, &'a WorkerView),
}

impl<'a> Row<'a> {
    pub(super) fn choice(self) -> Choice {
        match self {
            Self::App(app) => Choice::App(app.definition.name.clone()),
            Self::Worker(_, worker) => Choice::Worker(worker.pm_id),
        }
    }

    pub(super) fn app(self) -> &'a AppView {
        match self {
            Self::App(app) | Self::Worker(app, _) => app,
        }
    }

    /// Its only worker.
    pub(super) fn worker(self) -> Option<&'a WorkerView> {
        match self {
            Self::App(app) if app.workers.len() == 1 => app.workers.first(),
            Self::App(_) => None,
            Self::Worker(_, worker) => Some(worker),
        }
    }
}

/// The output of what is chosen.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Whose it is.
    pub(super) of: Option<Choice>,
    lines: VecDeque<OutputLine>,
    /// Only lines that hold this, in any case.
    pub(super) filter: String,
    /// How many lines further up than the last one; 0 follows.
    pub(super) up: usize,
    /// How many characters further right than the first one.
    pub(super) right: usize,
    /// How many lines the screen shows; drawing knows it.
    pub(super) page: Cell<usize>,
}

/// A line of output without what would move the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputLine {
    pub(super) pm_id: Option<u32>,
    pub(super) is_error: bool,
    pub(super) text: String,
}

impl Output {
    /// The lines that the filter leaves, oldest first.
    pub(super) fn shown(&self) -> Vec<&OutputLine> {
        let wanted = self.filter.to_lowercase();
        self.lines
            .iter()
            .filter(|line| wanted.is_empty() || line.text.to_lowercase().contains(&wanted))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, line: OutputLine) {
        // Who has scrolled up keeps what he sees.
        let wanted = self.filter.to_lowercase();
        if self.up > 0 && line.text.to_lowercase().contains(&wanted) {
            self.up += 1;
        }
        self.lines.push_back(line);
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
        // Not for each of many lines, when it is not needed.
        if self.up > 0 {
            self.bound();
        }
    }

    /// Keeps the view within the lines.
    pub(super) fn bound(&mut self) {
        self.up = self.up.min(self.shown().len().saturating_sub(self.page.get().max(1)));
    }
}

impl State {
    /// The lines of the list: an app, and its workers when there are several.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let wanted = self.app_filter.to_lowercase();
        let is_wanted = |app: &&AppView| {
            let name = app.definition.name.to_lowercase();
            name.contains(&wanted) || app.definition.namespace.to_lowercase().contains(&wanted)
        };
        let of_app = |app| {
            let view: &AppView = app;
            let several = view.workers.len() > 1;
            let workers = view.workers.iter().filter(move |_| several);
            std::iter::once(Row::App(view)).chain(workers.map(move |worker| Row::Worker(view, worker)))
        };
        let mut apps: Vec<&AppView> = self.list.apps.iter().filter(is_wanted).collect();
        self.order.apply(&mut apps);
        apps.into_iter().flat_map(of_app).collect()
    }

    /// The number of the chosen line.
    pub(super) fn chosen_index(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.rows().iter().position(|row| row.choice() == *chosen)
    }

    /// The daemon's list has come.
    pub(super) fn take_list(&mut self, list: AppList, now_ms: u64) {
        self.history.take(&list);
        self.list = list;
        self.now_ms = now_ms;
        self.fault = None;
        self.choose_something();
    }

    /// There is no list to be had.
    pub(super) fn lose(&mut self, fault: String) {
        self.fault = Some(fault);
    }

    /// The chosen line may have gone, or been filtered away.
    pub(super) fn choose_something(&mut self) {
        if self.chosen_index().is_none() {
            self.chosen = self.rows().first().map(|row| row.choice());
        }
        // A question about the app of a chosen worker stays while the app is there.
        let is_there = |target: &Choice| self.rows().iter().any(|row| row.choice() == *target);
        if let Mode::Confirm(action) = &self.mode
            && !is_there(&action.target)
        {
            self.mode = Mode::Look;
        }
    }

    /// The output of another one is followed from now on.
    pub(super) fn follow(&mut self, of: Option<Choice>) {
        let filter = std::mem::take(&mut self.output.filter);
        let page = self.output.page.clone();
        self.output = Output { of, filter, page, ..Output::default() };
    }

    /// A line has come of what is followed.
    pub(super) fn take_line(&mut self, line: &LogLine) {
        self.output.push(OutputLine {
            pm_id: line.pm_id,
            is_error: line.stream == forkful_api::types::LogStream::Err,
            text: plain(&line.line),
        });
    }
}
