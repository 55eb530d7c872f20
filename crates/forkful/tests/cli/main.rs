//! The real binary, command by command: what it says and how it exits.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod apply;
mod attributes;
mod behaviours;
mod bench;
mod bench_limits;
mod bench_tools;
mod blocks;
mod boot;
mod changes;
mod completion;
mod configs;
mod deploy;
mod docs;
mod foreground;
mod gate;
mod health;
mod help;
mod home;
mod http;
mod import_pm2;
mod input;
mod lab;
mod lifecycle;
mod looks;
mod metrics;
mod offline;
mod persistence;
mod sandbox;
mod serve;
mod settings;
mod settled;
mod starting;
mod stopping;
mod targets;
mod terminal;
