//! The pane of the selection's output.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use super::super::state::{Choice, Focus, Output, OutputLine, State};
use super::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let output = &state.output;
    let block = Block::bordered()
        .title(title(output))
        .title_top(Line::from(place(output)).right_aligned())
        .border_style(theme.frame(state.focus == Focus::Output));
    let shown = output.shown();
    let height = usize::from(block.inner(area).height);
    output.page.set(height);
    if shown.is_empty() {
        let text = match (&output.of, output.is_empty()) {
            (None, _) => "",
            (Some(_), true) => "no output yet",
            (Some(_), false) => "no line contains this; esc shows all",
        };
        return frame.render_widget(Paragraph::new(text).style(theme.quiet()).block(block), area);
    }
    let end = shown.len() - output.up.min(shown.len() - 1);
    let begin = end.saturating_sub(height);
    let several = matches!(output.of, Some(Choice::App(_)))
        && shown.iter().any(|line| line.pm_id.is_some() && line.pm_id != shown[0].pm_id);
    let lines: Vec<Line<'_>> =
        shown[begin..end].iter().map(|line| drawn(line, several, output.right, theme)).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn title(output: &Output) -> String {
    let of = match &output.of {
        None => " output ".to_owned(),
        Some(Choice::App(name)) => format!(" output of {name} "),
        Some(Choice::Worker(pm_id)) => format!(" output of worker {pm_id} "),
    };
    if output.filter.is_empty() { of } else { format!("{of}with \"{}\" ", output.filter) }
}

/// The scroll position in the output.
fn place(output: &Output) -> String {
    match (output.of.is_some(), output.up) {
        (false, _) => String::new(),
        (true, 0) => " following ".to_owned(),
        (true, up) => format!(" {up} further up, end follows "),
    }
}

fn drawn(line: &OutputLine, several: bool, right: usize, theme: Theme) -> Line<'static> {
    let text: String = line.text.chars().skip(right).collect();
    let mut spans = Vec::with_capacity(3);
    if several {
        let id = line.pm_id.map_or_else(|| "  ".to_owned(), |id| format!("{id:>2}"));
        spans.push(Span::styled(format!("{id} "), theme.quiet()));
    }
    if line.is_error {
        // Readable without colours too.
        spans.push(Span::styled("! ", theme.fault()));
    }
    spans.push(if line.is_error { Span::styled(text, theme.fault()) } else { Span::raw(text) });
    Line::from(spans)
}
