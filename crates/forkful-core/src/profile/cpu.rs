//! A CPU profile as V8 writes it: a tree of calls, and for each sample the node that ran.
//!
//! It comes from a worker, so nothing of it is believed: sizes and texts have bounds, the tree must be one, and nothing follows it by
//! recursion.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// The largest profile that is read. A minute with a sample each millisecond has some megabytes.
pub const BYTES_MAX: usize = 256 << 20;
/// Nodes of the tree.
const NODES_MAX: usize = 1 << 20;
/// Samples: a minute with the shortest interval.
const SAMPLES_MAX: usize = 1 << 20;
/// How the agent marks its own frames: this, and the name of a file.
const AGENT_SCHEME: &str = "forkful:";
/// The address of all frames of the agent: they are one function.
const AGENT_URL: &str = "forkful:agent";
/// Letters of a function's name, and of the address of its file.
const TEXT_MAX: usize = 300;

/// Why a text is no CPU profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAProfile(String);

impl fmt::Display for NotAProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what the worker sent is no CPU profile: {}", self.0)
    }
}

impl std::error::Error for NotAProfile {}

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The app's.
    Own,
    /// Of a package in `node_modules`.
    Library,
    /// Of the agent, which Forkful preloads into the app.
    Forkful,
    /// Node.js' own JavaScript.
    Node,
    /// Built into V8 or Node.js, or without a file for another reason.
    Native,
}

impl Origin {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "app",
            Self::Library => "library",
            Self::Forkful => "forkful",
            Self::Node => "node",
            Self::Native => "native",
        }
    }
}

/// A function, or one of V8's own names in parentheses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Its name; empty for a function without one.
    pub name: String,
    /// The address of its file.
    pub url: String,
    /// The line in it, from 1; 0 where it is not known.
    pub line: u32,
}

impl Frame {
    /// Whose code it is.
    pub fn origin(&self) -> Origin {
        match self.url.as_str() {
            "" => Origin::Native,
            AGENT_URL => Origin::Forkful,
            url if url.starts_with("node:") => Origin::Node,
            url if url.contains("/node_modules/") => Origin::Library,
            _ => Origin::Own,
        }
    }

    /// Its name for people.
    pub fn shown_name(&self) -> &str {
        if self.name.is_empty() { "(anonymous)" } else { &self.name }
    }

    /// Its file and line for people, without `root` in front; empty where there is no file.
    pub fn place(&self, root: &str) -> String {
        if self.url.is_empty() || self.origin() == Origin::Forkful {
            return String::new();
        }
        let path = self.url.strip_prefix("file://").unwrap_or(&self.url);
        let below = path.strip_prefix(root.trim_end_matches('/')).and_then(|path| path.strip_prefix('/'));
        format!("{}:{}", below.filter(|_| !root.is_empty()).unwrap_or(path), self.line)
    }

    /// Both in one text: `render (views/page.js:12)`.
    pub fn text(&self, root: &str) -> String {
        match self.place(root) {
            place if place.is_empty() => self.shown_name().to_owned(),
            place => format!("{} ({place})", self.shown_name()),
        }
    }
}

/// A call: the same function by the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its place in [`CpuProfile::frames`].
    pub frame: usize,
    /// The node that called it, which stands before it; none for the first.
    pub parent: Option<usize>,
    /// Microseconds in it alone.
    pub own_us: u64,
    /// Microseconds in it and in what it called.
    pub total_us: u64,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuProfile {
    /// Each once.
    pub frames: Vec<Frame>,
    /// Callers before those that they call. Calls of the same function from the same node are one node.
    pub nodes: Vec<Node>,
    /// How many samples there were.
    pub samples: usize,
}

#[derive(Deserialize)]
struct Raw {
    nodes: Bounded<RawNode, NODES_MAX>,
    #[serde(rename = "startTime")]
    start: f64,
    #[serde(rename = "endTime")]
    end: f64,
    samples: Bounded<u64, SAMPLES_MAX>,
    #[serde(rename = "timeDeltas")]
    deltas: Bounded<i64, SAMPLES_MAX>,
}

#[derive(Deserialize)]
struct RawNode {
    id: u64,
    #[serde(rename = "callFrame")]
    frame: RawFrame,
    #[serde(default)]
    children: Option<Bounded<u64, NODES_MAX>>,
}

#[derive(Deserialize)]
struct RawFrame {
    #[serde(rename = "functionName")]
    name: String,
    url: String,
    #[serde(rename = "lineNumber")]
    line: i64,
}

impl CpuProfile {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Self, NotAProfile> {
        let wrong = |what: &str| NotAProfile(what.to_owned());
        if json.len() > BYTES_MAX {
            return Err(wrong("it is too large"));
        }
        let raw: Raw = serde_json::from_slice(json).map_err(|error| NotAProfile(error.to_string()))?;
        let (nodes, samples, deltas) = (raw.nodes.0, raw.samples.0, raw.deltas.0);
        if samples.len() != deltas.len() {
            return Err(wrong("it has not one time for each sample"));
        }
        let places: HashMap<u64, usize> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        if nodes.is_empty() || places.len() != nodes.len() {
            return Err(wrong("its nodes have not each a number of their own"));
        }
        let length_us = micros(raw.end - raw.start);
        let own = own_times(&samples, &deltas, length_us, &places, nodes.len())
            .ok_or_else(|| wrong("a sample is in a node that is not there"))?;
        let order = in_order(&nodes, &places).map_err(wrong)?;
        Ok(merged(nodes, &order, &own, samples.len()))
    }

    /// Microseconds that were sampled.
    pub fn total_us(&self) -> u64 {
        self.nodes.first().map_or(0, |root| root.total_us)
    }

    /// Microseconds in nodes of a name of V8's own, such as `(idle)`.
    pub fn in_state(&self, name: &str) -> u64 {
        let is_it = |frame: &Frame| frame.url.is_empty() && frame.name == name;
        self.nodes.iter().filter(|node| is_it(&self.frames[node.frame])).map(|node| node.own_us).sum()
    }

    /// Microseconds in which the thread did something.
    pub fn busy_us(&self) -> u64 {
        self.total_us().saturating_sub(self.in_state("(idle)"))
    }
}

/// A float of microseconds as a number; what makes no sense is 0. A profile of a day is long enough for everybody.
fn micros(value: f64) -> u64 {
    const DAY_US: f64 = 86_400e6;
    if value.is_finite() { value.clamp(0.0, DAY_US) as u64 } else { 0 }
}

/// The time of each node's own samples. A sample stands for the time up to the next one. `None` where a sample is in no node.
fn own_times(
    samples: &[u64],
    deltas: &[i64],
    length_us: u64,
    places: &HashMap<u64, usize>,
    nodes: usize,
) -> Option<Vec<u64>> {
    let mut own = vec![0_u64; nodes];
    // V8's times may go backwards by a little.
    let delta = |delta: i64| micros(delta as f64);
    let sampled = deltas.iter().fold(0_u64, |sum, next| sum.saturating_add(delta(*next)));
    for (at, sample) in samples.iter().enumerate() {
        let time = deltas.get(at + 1).map_or(length_us.saturating_sub(sampled), |next| delta(*next));
        let place = &mut own[*places.get(sample)?];
        *place = place.saturating_add(time);
    }
    Some(own)
}

/// The nodes in an order in which each comes behind its parent, with it.
fn in_order(
    nodes: &[RawNode],
    places: &HashMap<u64, usize>,
) -> Result<Vec<(usize, Option<usize>)>, &'static str> {
    let mut has_parent = vec![false; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    let mut open = vec![(0, None)];
    while let Some((at, parent)) = open.pop() {
        order.push((at, parent));
        for child in nodes[at].children.iter().flat_map(|children| &children.0) {
            let child = *places.get(child).ok_or("a node has a child that is not there")?;
            if child == 0 || std::mem::replace(&mut has_parent[child], true) {
                return Err("its nodes are no tree");
            }
            open.push((child, Some(at)));
        }
    }
    if order.len() == nodes.len() { Ok(order) } else { Err("its nodes are no tree") }
}

/// One node for the calls of the same function from the same node; V8 tells apart by more than that.
fn merged(raw: Vec<RawNode>, order: &[(usize, Option<usize>)], own: &[u64], samples: usize) -> CpuProfile {
    let mut frames: HashMap<Frame, usize> = HashMap::new();
    let of_raw: Vec<usize> = raw
        .into_iter()
        .map(|node| {
            let next = frames.len();
            *frames.entry(Frame::from(node.frame)).or_insert(next)
        })
        .collect();
    let mut nodes: Vec<Node> = Vec::new();
    let mut known: HashMap<(Option<usize>, usize), usize> = HashMap::new();
    let mut place_of = vec![0; of_raw.len()];
    for (at, parent) in order {
        let key = (parent.map(|parent| place_of[parent]), of_raw[*at]);
        let next = nodes.len();
        let place = *known.entry(key).or_insert(next);
        if place == next {
            nodes.push(Node { frame: key.1, parent: key.0, own_us: 0, total_us: 0 });
        }
        nodes[place].own_us = nodes[place].own_us.saturating_add(own[*at]);
        place_of[*at] = place;
    }
    for at in (0..nodes.len()).rev() {
        let total = nodes[at].total_us.saturating_add(nodes[at].own_us);
        nodes[at].total_us = total;
        if let Some(parent) = nodes[at].parent {
            nodes[parent].total_us = nodes[parent].total_us.saturating_add(total);
        }
    }
    let mut sorted: Vec<(Frame, usize)> = frames.into_iter().collect();
    sorted.sort_unstable_by_key(|(_, place)| *place);
    CpuProfile { frames: sorted.into_iter().map(|(frame, _)| frame).collect(), nodes, samples }
}

impl From<RawFrame> for Frame {
    fn from(raw: RawFrame) -> Self {
        if raw.url.starts_with(AGENT_SCHEME) {
            return Self { name: "Forkful's agent".to_owned(), url: AGENT_URL.to_owned(), line: 0 };
        }
        let cut = |text: String| match text.char_indices().nth(TEXT_MAX) {
            Some((at, _)) => text[..at].to_owned(),
            None => text,
        };
        let line = u32::try_from(raw.line.saturating_add(1)).unwrap_or(0);
        Self { name: cut(raw.name), url: cut(raw.url), line }
    }
}

/// A list of at most `MAX`.
struct Bounded<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Bounded<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(part) = parts.next_element()? {
                    if all.len() == MAX {
                        return Err(de::Error::custom(format_args!("a list has more than {MAX} parts")));
                    }
                    all.push(part);
                }
                Ok(Bounded(all))
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}
