//! Handles keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use forkful_core::spec::INSTANCES_MAX;

use super::state::{Action, Choice, Focus, Mode, Row, State};
use crate::commands::act::{DELETE, RELOAD, RESTART, SCALE, START, STOP, Words};
use crate::output::format::count;

/// Lines of a page in the list.
const PAGE: usize = 10;

/// Columns of a step sideways.
const SIDEWAYS: usize = 8;

/// The longest filter.
const FILTER_MAX: usize = 60;

/// An effect outside of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Act(Action),
}

/// Handles a pressed key.
pub(super) fn press(state: &mut State, key: KeyEvent) -> Option<Effect> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Effect::Quit);
    }
    match &state.mode {
        Mode::Look => look(state, key.code),
        Mode::Filter => {
            write_filter(state, key.code);
            None
        }
        Mode::Help => {
            state.mode = Mode::Look;
            None
        }
        Mode::Confirm(action) => {
            let action = action.clone();
            state.mode = Mode::Look;
            matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter).then_some(Effect::Act(action))
        }
    }
}

fn look(state: &mut State, key: KeyCode) -> Option<Effect> {
    match key {
        KeyCode::Char('q') => return Some(Effect::Quit),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => state.mode = Mode::Help,
        KeyCode::Char('/') => state.mode = Mode::Filter,
        KeyCode::Char('r') => ask(state, RESTART),
        KeyCode::Char('l') => ask(state, RELOAD),
        KeyCode::Char('s') => ask(state, STOP),
        KeyCode::Char('t') => ask(state, START),
        KeyCode::Char('d') => ask(state, DELETE),
        KeyCode::Char('+') => scale(state, 1),
        KeyCode::Char('-') => scale(state, -1),
        KeyCode::Char('o') => state.order = state.order.next(),
        KeyCode::Tab | KeyCode::BackTab => {
            state.focus = match state.focus {
                Focus::Apps => Focus::Output,
                Focus::Output => Focus::Apps,
            };
        }
        KeyCode::Esc => {
            filter(state).clear();
            filtered(state);
        }
        key => match state.focus {
            Focus::Apps => choose(state, key),
            Focus::Output => scroll(state, key),
        },
    }
    None
}

/// The filter of the focused pane.
pub(super) fn filter(state: &mut State) -> &mut String {
    match state.focus {
        Focus::Apps => &mut state.app_filter,
        Focus::Output => &mut state.output.filter,
    }
}

fn filtered(state: &mut State) {
    state.choose_something();
    state.output.bound();
}

fn write_filter(state: &mut State, key: KeyCode) {
    match key {
        KeyCode::Enter => state.mode = Mode::Look,
        KeyCode::Esc => {
            filter(state).clear();
            state.mode = Mode::Look;
        }
        KeyCode::Backspace => drop(filter(state).pop()),
        KeyCode::Char(c) if filter(state).chars().count() < FILTER_MAX => filter(state).push(c),
        _ => {}
    }
    filtered(state);
}

/// Changes the number of workers of the selected app by one, after confirmation.
fn scale(state: &mut State, change: i32) {
    let rows = state.rows();
    let Some(row) = state.chosen_index().and_then(|index| rows.get(index)) else { return };
    let (name, present) = (row.app().definition.name.clone(), row.app().workers.len());
    let wanted = i32::try_from(present).ok().and_then(|present| u16::try_from(present + change).ok());
    let Some(number) = wanted.filter(|number| (1..=INSTANCES_MAX).contains(number)) else { return };
    let whom = format!("{name} from {present} to {}", count(usize::from(number), "worker"));
    let instances = Some(number);
    state.mode = Mode::Confirm(Action { words: SCALE, instances, target: Choice::App(name), whom });
}

/// Nothing is done before the user confirms.
fn ask(state: &mut State, words: Words<'static>) {
    let rows = state.rows();
    let Some(row) = state.chosen_index().and_then(|index| rows.get(index)) else { return };
    let name = &row.app().definition.name;
    let whom = match row {
        Row::App(app) => match app.workers.len() {
            1 => name.clone(),
            number => format!("{name} ({number} workers)"),
        },
        Row::Worker(_, worker) => format!("worker {} of {name}", worker.pm_id),
    };
    state.mode = Mode::Confirm(Action { words, instances: None, target: row.choice(), whom });
}

fn choose(state: &mut State, key: KeyCode) {
    let choices: Vec<Choice> = state.rows().iter().map(|row| row.choice()).collect();
    let Some(last) = choices.len().checked_sub(1) else { return };
    let present = state.chosen_index().unwrap_or(0);
    let index = match key {
        KeyCode::Up | KeyCode::Char('k') => present.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => present + 1,
        KeyCode::PageUp => present.saturating_sub(PAGE),
        KeyCode::PageDown => present + PAGE,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return,
    };
    state.chosen = choices.get(index.min(last)).cloned();
}

fn scroll(state: &mut State, key: KeyCode) {
    let output = &mut state.output;
    let page = output.page.get().max(1);
    match key {
        KeyCode::Up | KeyCode::Char('k') => output.up += 1,
        KeyCode::Down | KeyCode::Char('j') => output.up = output.up.saturating_sub(1),
        KeyCode::PageUp => output.up += page,
        KeyCode::PageDown => output.up = output.up.saturating_sub(page),
        KeyCode::Home | KeyCode::Char('g') => output.up = usize::MAX,
        KeyCode::End | KeyCode::Char('G') => output.up = 0,
        KeyCode::Left => output.right = output.right.saturating_sub(SIDEWAYS),
        KeyCode::Right => output.right += SIDEWAYS,
        _ => return,
    }
    output.bound();
}
