//! A line of a user's file with a caret under the position of a message.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use forkful_config::Spot;

use super::paint::Paint;

/// Columns of an excerpt; longer lines are cut around the position.
const COLUMNS: usize = 100;

/// The line of a position in a text, with its number; empty if the position is not in the text.
pub(crate) fn excerpt(text: &str, at: Spot, level: Level<'static>, paint: Paint) -> String {
    if text.get(at.start..at.end).is_none() || at.start >= text.len() {
        return String::new();
    }
    let annotation = AnnotationKind::Primary.span(at.start..at.end.max(at.start));
    let group = Group::with_level(level).element(Snippet::source(text).annotation(annotation));
    let renderer = if paint.is_enabled() { Renderer::styled() } else { Renderer::plain() };
    let mut shown = renderer.term_width(COLUMNS).render(&[group]);
    shown.push('\n');
    shown
}
