//! The doctor over synthetic seconds: a table of apps with a known limit, the bounds around each rule, and what is advised.

mod advice;
mod apps;
mod verdicts;
