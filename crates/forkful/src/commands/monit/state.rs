//! The state of `monit`: the apps, the selected line, its output, and the question to the user. Nothing here
//! uses a daemon or a terminal.

use std::cell::Cell;
use std::collections::VecDeque;

use forkful_api::types::{AppList, AppView, LogLine, WorkerView};

use super::history::History;
use super::plain::plain;
use crate::commands::act::Words;

/// Output lines that are kept; the files have older ones.
pub(super) const LINES_MAX: usize = 2000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) list: AppList,
    pub(super) now_ms: u64,
    /// Why there is no list, or why it is outdated.
    pub(super) fault: Option<String>,
    /// The selected line by identity, so that it stays selected when others come and go.
    pub(super) chosen: Option<Choice>,
    /// Only apps whose name or group contains this.
    pub(super) app_filter: String,
    pub(super) output: Output,
    pub(super) focus: Focus,
    pub(super) mode: Mode,
    /// The result of the last action.
    pub(super) told: Option<Told>,
    /// The order of the apps.
    pub(super) order: Order,
    /// CPU and memory of each line in the last minute.
    pub(super) history: History,
}

/// The order of the apps in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// As in `forkful list`.
    #[default]
    Id,
    Name,
    Cpu,
    Memory,
    Restarts,
}

impl Order {
    /// The next order, for the key that changes it.
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

/// The identity of a line in the list.
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

/// The pane that gets the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Focus {
    #[default]
    Apps,
    Output,
}

/// The current meaning of the keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    Look,
    /// The filter of the focused pane is being typed.
    Filter,
    Help,
    /// An action needs confirmation.
    Confirm(Action),
}

/// An action on an app or a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) words: Words<'static>,
    /// For `scale`: the new number of workers.
    pub(super) instances: Option<u16>,
    pub(super) target: Choice,
    /// Its target, in words.
    pub(super) whom: String,
}

/// The result of an action.
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

/// The output of the selection.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The selection that it belongs to.
    pub(super) of: Option<Choice>,
    lines: VecDeque<OutputLine>,
    /// Only lines that contain this, case-insensitive.
    pub(super) filter: String,
    /// How many lines above the last one; 0 follows.
    pub(super) up: usize,
    /// How many characters right of the first.
    pub(super) right: usize,
    /// The number of visible lines; set by drawing.
    pub(super) page: Cell<usize>,
}

/// A line of output without control sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputLine {
    pub(super) pm_id: Option<u32>,
    pub(super) is_error: bool,
    pub(super) text: String,
}

impl Output {
    /// The lines that match the filter, oldest first.
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
        // After scrolling up, the view stays where it is.
        let wanted = self.filter.to_lowercase();
        if self.up > 0 && line.text.to_lowercase().contains(&wanted) {
            self.up += 1;
        }
        self.lines.push_back(line);
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
        // Not for each of many lines if it is not needed.
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
    /// The lines of the list: an app, and its workers if there are several.
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

    /// The index of the selected line.
    pub(super) fn chosen_index(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.rows().iter().position(|row| row.choice() == *chosen)
    }

    /// The daemon's list has arrived.
    pub(super) fn take_list(&mut self, list: AppList, now_ms: u64) {
        self.history.take(&list);
        self.list = list;
        self.now_ms = now_ms;
        self.fault = None;
        self.choose_something();
    }

    /// The list is not available.
    pub(super) fn lose(&mut self, fault: String) {
        self.fault = Some(fault);
    }

    /// The selected line may be gone or filtered out.
    pub(super) fn choose_something(&mut self) {
        if self.chosen_index().is_none() {
            self.chosen = self.rows().first().map(|row| row.choice());
        }
        // A confirmation about the app of a selected worker stays while the app exists.
        let is_there = |target: &Choice| self.rows().iter().any(|row| row.choice() == *target);
        if let Mode::Confirm(action) = &self.mode
            && !is_there(&action.target)
        {
            self.mode = Mode::Look;
        }
    }

    /// Switches to the output of another selection.
    pub(super) fn follow(&mut self, of: Option<Choice>) {
        let filter = std::mem::take(&mut self.output.filter);
        let page = self.output.page.clone();
        self.output = Output { of, filter, page, ..Output::default() };
    }

    /// A line of the followed output has arrived.
    pub(super) fn take_line(&mut self, line: &LogLine) {
        self.output.push(OutputLine {
            pm_id: line.pm_id,
            is_error: line.stream == forkful_api::types::LogStream::Err,
            text: plain(&line.line),
        });
    }
}
