//! Which functions a CPU profile's time went to.

use std::collections::HashMap;

use super::cpu::{CpuProfile, Node, Origin};

/// The time of a function over all ways by which it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionTime {
    /// Its place in [`CpuProfile::frames`].
    pub frame: usize,
    /// Microseconds in it alone.
    pub own_us: u64,
    /// Microseconds in it and in what it called of others: libraries' and Node.js' functions count for the app's function that called them, Node.js'
    /// for a library's or for Forkful's agent. Over all functions this is the time in JavaScript.
    pub charged_us: u64,
    /// Microseconds in which it was on the stack.
    pub total_us: u64,
}

/// See [`Functions::of`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions {
    /// Those with time that is charged to them, the hottest first.
    pub hottest: Vec<FunctionTime>,
    /// All microseconds that are charged to functions.
    pub charged_us: u64,
    /// Microseconds of garbage collection.
    pub garbage_collection_us: u64,
    /// Microseconds in the program itself: no JavaScript was on the stack.
    pub program_us: u64,
    /// Microseconds without anything to do.
    pub idle_us: u64,
}

impl Functions {
    /// What a profile's time went to.
    pub fn of(profile: &CpuProfile) -> Self {
        let mut times: HashMap<usize, FunctionTime> = HashMap::new();
        let mut charged_us = 0_u64;
        let charged = charged(profile);
        let first_of = first_on_stack(profile);
        for (at, node) in profile.nodes.iter().enumerate() {
            if profile.is_state(node) {
                continue;
            }
            let own = time_of(&mut times, node.frame);
            own.own_us = own.own_us.saturating_add(node.own_us);
            if first_of[at] {
                own.total_us = own.total_us.saturating_add(node.total_us);
            }
            charged_us = charged_us.saturating_add(node.own_us);
            let charged = time_of(&mut times, profile.nodes[charged[at]].frame);
            charged.charged_us = charged.charged_us.saturating_add(node.own_us);
        }
        let mut hottest: Vec<FunctionTime> = times.into_values().filter(|time| time.charged_us > 0).collect();
        let origin = |time: &FunctionTime| profile.frames[time.frame].origin();
        hottest.sort_unstable_by(|a, b| {
            (b.charged_us, b.own_us)
                .cmp(&(a.charged_us, a.own_us))
                .then_with(|| origin(a).cmp(&origin(b)))
                .then_with(|| profile.frames[a.frame].cmp(&profile.frames[b.frame]))
        });
        Self {
            hottest,
            charged_us,
            garbage_collection_us: profile.in_state("(garbage collector)"),
            program_us: profile.in_state("(program)"),
            idle_us: profile.in_state("(idle)"),
        }
    }
}

fn time_of(times: &mut HashMap<usize, FunctionTime>, frame: usize) -> &mut FunctionTime {
    times.entry(frame).or_insert(FunctionTime { frame, own_us: 0, charged_us: 0, total_us: 0 })
}

impl CpuProfile {
    /// Whether a node stands for a state of V8 and no function.
    fn is_state(&self, node: &Node) -> bool {
        let frame = &self.frames[node.frame];
        let is_named =
            matches!(frame.name.as_str(), "(root)" | "(idle)" | "(program)" | "(garbage collector)");
        node.parent.is_none() || frame.url.is_empty() && is_named
    }
}

/// The node whose function each node's own time is charged to: the innermost of the app's, else of a library's, else of Forkful's agent, else itself.
fn charged(profile: &CpuProfile) -> Vec<usize> {
    let mut all: Vec<usize> = Vec::with_capacity(profile.nodes.len());
    for (at, node) in profile.nodes.iter().enumerate() {
        let origin = |at: usize| profile.frames[profile.nodes[at].frame].origin();
        // The first node is no function, whatever it is called.
        let above = node.parent.map(|parent| all[parent]).filter(|above| *above > 0);
        let takes = |above: &usize| origin(*above) < origin(at) && origin(*above) <= Origin::Forkful;
        all.push(above.filter(takes).unwrap_or(at));
    }
    all
}

/// Whether no node above is of the same function, so that a function that calls itself counts once.
fn first_on_stack(profile: &CpuProfile) -> Vec<bool> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); profile.nodes.len()];
    for (at, node) in profile.nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent].push(at);
        }
    }
    let mut open = vec![0_u32; profile.frames.len()];
    let mut first = vec![false; profile.nodes.len()];
    // A node is entered, and left when all below it have been.
    let mut steps = if profile.nodes.is_empty() { Vec::new() } else { vec![(0, true)] };
    while let Some((at, enters)) = steps.pop() {
        let frame = profile.nodes[at].frame;
        let counts = u32::from(at > 0);
        if enters {
            first[at] = open[frame] == 0;
            open[frame] += counts;
            steps.push((at, false));
            steps.extend(children[at].iter().map(|child| (*child, true)));
        } else {
            open[frame] -= counts;
        }
    }
    first
}
