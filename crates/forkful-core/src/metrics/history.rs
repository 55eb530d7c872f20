//! Measurements of the last week, in ring buffers of fixed size: each second of the last hour, 10 s steps of
//! the last day, minutes of the last week. Slow values, which are measured every 10 s, have rings of their own:
//! 10 s steps of the last hour, 10 min steps of the last week. The rings of a worker are one area of bytes that
//! is held elsewhere; this module defines what is written where, and reads it.
//!
//! - `value`: a value in one byte · `recorder`: converts samples to writes · `reader`: converts bytes to
//!   series

mod reader;
mod recorder;
mod value;

pub use reader::{Query, Span, read_series};
pub use recorder::{Recorder, Write};

use std::ops::Range;

use super::table::Metric;

/// The columns of the rings: first those measured each second, most important first, because coarser rings
/// have fewer; then the slow ones.
pub const COLUMNS: [&str; 36] = [
    "event_loop_utilization",
    "main_thread_cpu",
    "run_queue_wait",
    "gc_pause_ms_per_s",
    "event_loop_delay_p99_ms",
    "http_requests_per_s",
    "http_errors_per_s",
    "http_latency_p50_ms",
    "http_latency_p99_ms",
    "memory_bytes",
    "heap_used_bytes",
    // From here on not in the ring of minutes.
    "pool_busy",
    "cpu_throttled",
    "accept_queue",
    "http_in_flight",
    "http_latency_p95_ms",
    // From here on only in the ring of seconds.
    "event_loop_delay_max_ms",
    "event_loop_iterations_per_s",
    "outgoing_in_flight",
    "pool_wait_ms",
    "pool_cpu",
    "cpu_cores",
    "heap_limit_bytes",
    "heap_total_bytes",
    "external_bytes",
    "event_loop_delay_p50_ms",
    "pool_threads",
    "cpu_throttled_periods",
    "http_client_errors_per_s",
    "gc_minor_ms_per_s",
    "outgoing_requests_per_s",
    "memory_limit_bytes",
    // From here on only in the slow rings.
    "connections",
    "cpu_pressure",
    "memory_pressure",
    "io_pressure",
];

/// One of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    Seconds,
    TenSeconds,
    Minutes,
    SlowTenSeconds,
    SlowTenMinutes,
}

/// Something for each ring, in the order of [`Ring::ALL`].
pub type EachRing<T> = [T; 5];

impl Ring {
    /// All rings, in the order of their areas.
    pub const ALL: EachRing<Self> =
        [Self::Seconds, Self::TenSeconds, Self::Minutes, Self::SlowTenSeconds, Self::SlowTenMinutes];
    /// Those of values that are measured each second; finest first.
    const USUAL: [Self; 3] = [Self::Seconds, Self::TenSeconds, Self::Minutes];
    /// Those of slow values; finest first.
    const SLOW: [Self; 2] = [Self::SlowTenSeconds, Self::SlowTenMinutes];

    /// Its index in [`Ring::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The time step of a record, in seconds.
    pub const fn step_s(self) -> u64 {
        match self {
            Self::Seconds => 1,
            Self::TenSeconds | Self::SlowTenSeconds => 10,
            Self::Minutes => 60,
            Self::SlowTenMinutes => 600,
        }
    }

    /// The number of records.
    pub const fn records(self) -> u64 {
        match self {
            Self::Seconds => 3600,
            Self::TenSeconds => 8640,
            Self::Minutes => 10_080,
            Self::SlowTenSeconds => 360,
            Self::SlowTenMinutes => 1008,
        }
    }

    /// Its columns, as indexes of [`COLUMNS`].
    pub const fn columns(self) -> Range<usize> {
        match self {
            Self::Seconds => 0..32,
            Self::TenSeconds => 0..16,
            Self::Minutes => 0..11,
            Self::SlowTenSeconds | Self::SlowTenMinutes => 32..COLUMNS.len(),
        }
    }

    /// The bytes of a record: one for each column.
    const fn record_bytes(self) -> u64 {
        let columns = self.columns();
        (columns.end - columns.start) as u64
    }

    const fn bytes(self) -> u64 {
        self.records() * self.record_bytes()
    }

    /// Its offset in the area of a worker.
    const fn begin(self) -> u64 {
        let (mut begin, mut before) = (0, 0);
        while before < self.index() {
            begin += Self::ALL[before].bytes();
            before += 1;
        }
        begin
    }

    /// Its place in the area of a worker: offset and length.
    pub const fn place(self) -> (u64, usize) {
        (self.begin(), self.bytes() as usize)
    }

    /// How far back it goes, in seconds.
    pub const fn reach_s(self) -> u64 {
        self.records() * self.step_s()
    }
}

/// Size of a worker's rings.
pub const RINGS_BYTES: u64 = Ring::SlowTenMinutes.begin() + Ring::SlowTenMinutes.bytes();

/// The rows of the columns.
fn column(at: usize) -> &'static Metric {
    Metric::named(COLUMNS[at]).expect("each column is in the table: a test holds that")
}

/// Whether several values are combined by their maximum instead of their mean.
fn is_peak(metric: &Metric) -> bool {
    metric.name.starts_with("event_loop_delay_") || metric.name.starts_with("http_latency_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::table::Kind;
    use crate::metrics::{HEAD_BYTES, Sample};

    /// A worker's area with its recorder.
    struct World {
        area: Vec<u8>,
        recorder: Recorder,
    }

    impl World {
        fn new() -> Self {
            Self { area: vec![0; RINGS_BYTES as usize], recorder: Recorder::default() }
        }

        fn record(&mut self, at_s: u64, share: f64) {
            self.take(at_s, &[("event_loop_utilization", share), ("event_loop_delay_p99_ms", share * 100.0)]);
        }

        fn take(&mut self, at_s: u64, values: &[(&str, f64)]) {
            for Write { offset, bytes } in self.recorder.record(at_s, &Sample::of(values)) {
                let offset = offset as usize;
                self.area[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }

        fn read(&self, name: &str, query: Query, now_s: u64) -> (Span, Vec<Option<f64>>) {
            let span = query.span(now_s);
            let read = |(ring, columns): (Ring, Range<usize>)| {
                let (begin, length) = ring.place();
                let bytes = &self.area[begin as usize..begin as usize + length];
                let last = self.recorder.ticks()[ring.index()];
                read_series(&span, (ring, columns), bytes, last, |column| column == name)
            };
            let mut found: Vec<_> = span.parts().flat_map(read).collect();
            assert!(found.len() <= 1, "a value is read of one ring");
            (span, found.pop().map_or(Vec::new(), |(_, values)| values))
        }
    }

    const SHARE: &str = "event_loop_utilization";
    const NOW: u64 = 1_764_000_000;

    fn query(from_s: u64, to_s: u64, step_s: u64) -> Query {
        Query { from_s: Some(from_s), to_s: Some(to_s), step_s: Some(step_s) }
    }

    #[test]
    fn a_quiet_worker_has_no_gaps_and_one_that_was_away_has_one() {
        let mut world = World::new();
        for at in [1, 2, 12, 40, 41] {
            world.record(NOW + at, 1.0);
        }
        world.record(NOW + 30, 0.0);
        let (span, values) = world.read(SHARE, query(NOW, NOW + 42, 1), NOW + 42);
        assert_eq!((span.step_s, span.points, span.ring), (1, 42, Ring::Seconds));
        let there: Vec<u64> = (0..42).filter(|at| values[*at as usize].is_some()).collect();
        assert_eq!(
            there,
            (1..=12).chain(40..=41).collect::<Vec<_>>(),
            "a clock that was set back changes nothing"
        );
    }

    #[test]
    fn coarser_rings_have_means_and_the_most_of_what_was_late() {
        let mut world = World::new();
        for second in 0..3 * 3600 {
            world.record(NOW + second, if second % 10 == 0 { 1.0 } else { 0.0 });
        }
        let now = NOW + 3 * 3600;
        for (step, ring) in [(10, Ring::TenSeconds), (60, Ring::Minutes), (600, Ring::Minutes)] {
            let (span, shares) = world.read(SHARE, query(NOW, now, step), now);
            assert_eq!((span.step_s, span.ring, span.points), (step, ring, 3 * 3600 / step));
            let late = world.read("event_loop_delay_p99_ms", query(NOW, now, step), now).1;
            // The current record is not complete yet.
            for at in 0..shares.len() - 1 {
                assert!((shares[at].unwrap() - 0.1).abs() < 0.005, "{step} {at}: {:?}", shares[at]);
                assert!((late[at].unwrap() - 100.0).abs() < 4.0, "{step} {at}: {:?}", late[at]);
            }
        }
        let (span, shares) = world.read(SHARE, query(now - 20, now, 1), now);
        assert_eq!((span.ring, shares.iter().flatten().count()), (Ring::Seconds, 20));
        assert_eq!(shares.iter().flatten().filter(|share| **share > 0.9).count(), 2);
    }

    #[test]
    fn what_is_older_than_a_ring_is_gone_and_never_read_as_new() {
        let mut world = World::new();
        for second in 0..7300 {
            world.record(NOW + second, 1.0);
        }
        // It was away for most of the ring, or for more than all of it.
        for away in [3000, 10_000] {
            let now = NOW + 7300 + away;
            world.record(now, 0.0);
            let seconds = world.read(SHARE, query(now - 3599, now + 1, 1), now + 1).1;
            let there = seconds.iter().flatten().count() as u64;
            assert_eq!(there, if away == 3000 { 3600 - 3000 } else { 1 });
            assert_eq!(seconds.last(), Some(&Some(0.0)));
        }
    }

    #[test]
    fn another_recorder_goes_on_where_one_has_ended() {
        let mut world = World::new();
        (0..100).for_each(|second| world.record(NOW + second, 0.5));
        world.recorder = Recorder::resume(world.recorder.ticks());
        (105..200).for_each(|second| world.record(NOW + second, 0.5));
        let values = world.read(SHARE, query(NOW, NOW + 200, 1), NOW + 200).1;
        assert!(values.iter().all(Option::is_some), "{values:?}");
        assert!(world.read(SHARE, query(NOW, NOW + 190, 10), NOW + 200).1.iter().all(Option::is_some));
    }

    #[test]
    fn a_query_gets_a_ring_that_goes_back_so_far_and_no_more_points_than_there_may_be() {
        let of = |back_s: u64, step_s: Option<u64>| {
            let span = Query { from_s: Some(NOW - back_s), to_s: None, step_s }.span(NOW);
            assert!(span.points <= 3601 && span.step_s.is_multiple_of(span.ring.step_s()), "{span:?}");
            (span.ring, span.step_s)
        };
        assert_eq!(
            Query::default().span(NOW),
            Span {
                from_s: NOW - 600,
                step_s: 1,
                points: 600,
                ring: Ring::Seconds,
                finest: Ring::Seconds,
                slow: Ring::SlowTenSeconds
            }
        );
        assert_eq!(of(3600, None), (Ring::Seconds, 1));
        assert_eq!(of(3601, None), (Ring::TenSeconds, 10));
        assert_eq!(of(86_400, None), (Ring::TenSeconds, 30));
        assert_eq!(of(86_400, Some(60)), (Ring::Minutes, 60));
        assert_eq!(of(600, Some(60)), (Ring::Minutes, 60));
        assert_eq!(of(7200, Some(1)), (Ring::TenSeconds, 10), "seconds do not go back so far");
        assert_eq!(of(604_800, None), (Ring::Minutes, 180));
        assert_eq!(of(NOW, Some(7)), (Ring::Minutes, 180), "a week is all there is");
        let odd = query(NOW + 5, NOW - 5, 0).span(NOW);
        assert_eq!((odd.points, odd.step_s), (1, 1));
    }

    proptest! {
        #[test]
        fn any_query_gets_a_bounded_reply(
            [from_s, to_s, step_s] in prop::array::uniform3(prop::option::of(prop_oneof![
                any::<u64>(),
                0..700_000_u64,
                NOW - 700_000..NOW + 700_000,
                Just(u64::MAX),
            ])),
        ) {
            let mut world = World::new();
            (0..20).for_each(|second| world.take(NOW - 20 + second, &[(SHARE, 0.5), ("pool_busy", 0.5)]));
            for name in [SHARE, "pool_busy"] {
                let (span, values) = world.read(name, Query { from_s, to_s, step_s }, NOW);
                prop_assert!(span.points <= 3601 && span.step_s <= Ring::Minutes.reach_s(), "{span:?}");
                prop_assert!(values.is_empty() || values.len() as u64 == span.points);
            }
        }
    }

    #[test]
    fn a_step_may_be_as_long_as_the_longest_ring() {
        let mut world = World::new();
        (0..20).for_each(|second| world.record(NOW - 20 + second, 0.5));
        for step in [Ring::Minutes.reach_s(), 1_000_000_000_000_000, u64::MAX] {
            let (span, values) = world.read(SHARE, query(NOW - 600, NOW, step), NOW);
            assert_eq!(span.step_s, Ring::Minutes.reach_s());
            assert!(values.iter().flatten().count() == 1, "{values:?}");
        }
    }

    #[test]
    fn columns_are_values_of_the_table() {
        for (at, name) in COLUMNS.iter().enumerate() {
            assert_eq!(column(at).kind, Kind::Gauge, "{name}");
            assert_eq!(COLUMNS.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert_eq!(Ring::Seconds.columns().end, Ring::SlowTenSeconds.columns().start);
        assert!(Ring::ALL.iter().enumerate().all(|(index, ring)| ring.index() == index));
    }

    #[test]
    fn the_histories_of_eight_workers_have_less_than_three_megabytes() {
        assert_eq!(RINGS_BYTES, 369_792);
        const { assert!(8 * (RINGS_BYTES + HEAD_BYTES as u64) < 3_000_000) };
    }

    #[test]
    fn slow_values_are_kept_each_ten_seconds_for_an_hour_and_each_ten_minutes_for_a_week() {
        let mut world = World::new();
        let begin = NOW / 600 * 600;
        // 10 connections for a day, and 30 in the last 10 minutes.
        let now = begin + 86_400;
        for at in (begin..now).step_by(10) {
            world
                .take(at, &[("connections", if at + 600 < now { 10.0 } else { 30.0 }), ("io_pressure", 0.5)]);
        }
        let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 0.04;
        let (span, seconds) = world.read("connections", query(now - 700, now, 1), now);
        assert_eq!((span.ring, span.slow, span.points), (Ring::Seconds, Ring::SlowTenSeconds, 700));
        assert!(near(seconds[0], 10.0) && near(seconds[699], 30.0), "{seconds:?}");
        assert_eq!(seconds.iter().flatten().count(), 700, "a value holds until the next one");
        let (span, hour) = world.read("connections", query(now - 3600, now, 10), now);
        assert_eq!((span.slow, hour.iter().flatten().count()), (Ring::SlowTenSeconds, 360));
        let (span, day) = world.read("connections", query(now - 86_400, now, 240), now);
        assert_eq!((span.ring, span.slow), (Ring::Minutes, Ring::SlowTenMinutes));
        assert_eq!((day.len(), day.iter().flatten().count()), (360, 360));
        assert!(near(day[0], 10.0) && near(day[359], 30.0), "{day:?}");
        let week = world.read("io_pressure", query(now - 604_800, now, 1800), now).1;
        assert_eq!(week.iter().flatten().count(), 48);
        assert!(near(week[335], 0.5));
        assert!(world.read("io_pressure", query(now - 604_800, now - 86_400, 1800), now).1.is_empty());
    }

    #[test]
    fn a_value_that_a_coarse_ring_does_not_have_is_read_of_a_finer_one_that_goes_back_as_far() {
        let mut world = World::new();
        let begin = NOW / 600 * 600;
        let now = begin + 7200;
        for at in begin..now {
            world.take(at, &[("event_loop_utilization", 0.5), ("pool_busy", 0.25), ("pool_cpu", 2.0)]);
        }
        let count = |name: &str, back_s: u64, step_s: u64| {
            let values = world.read(name, query(now - back_s, now, step_s), now).1;
            values.into_iter().flatten().count()
        };
        // Six hours are read in minutes, of which two have values; pool_busy is only in steps of 10 s.
        for name in ["event_loop_utilization", "pool_busy"] {
            assert_eq!([count(name, 21_600, 60), count(name, 86_400, 240)], [120, 30], "{name}");
        }
        assert_eq!(count("pool_busy", 604_800, 1800), 0, "its ring goes back a day");
        assert_eq!([count("pool_cpu", 3600, 10), count("pool_cpu", 3600, 60)], [360, 60]);
        assert_eq!(count("pool_cpu", 7200, 60), 0, "its ring goes back an hour");
    }

    #[test]
    fn a_record_that_has_not_changed_is_written_once() {
        let mut recorder = Recorder::default();
        let begin = NOW / 600 * 600;
        let mut written = |at, pressure| {
            let (slow, _) = Ring::SlowTenSeconds.place();
            let writes = recorder.record(at, &Sample::of(&[("cpu_pressure", pressure)]));
            writes.iter().filter(|write| write.offset >= slow).count()
        };
        assert_eq!([0, 1, 2].map(|second| written(begin + second, 0.25)), [2, 0, 0]);
        assert_eq!(written(begin + 3, 0.75), 2, "both means have changed");
        assert_eq!(written(begin + 10, 0.75), 3, "both, and the next record of 10 s");
    }
}
