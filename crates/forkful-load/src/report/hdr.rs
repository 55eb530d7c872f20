//! The percentile spectrum in the format of `HdrHistogram`, which plotting tools read:
//! <https://hdrhistogram.github.io/HdrHistogram/plotFiles.html>.

use std::fmt::Write as _;

use crate::Histogram;

/// Ticks for each halving of the distance to 100 %; the default of `HdrHistogram`.
const TICKS: u32 = 5;

/// The spectrum in milliseconds.
pub fn hdr(histogram: &Histogram) -> String {
    let mut out =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut line =
        |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a String takes everything");
    if !histogram.is_empty() {
        for step in histogram.iter_quantiles(TICKS) {
            let (value, quantile) = (step.value_iterated_to() as f64 / 1e6, step.quantile_iterated_to());
            let count = histogram.count_between(0, step.value_iterated_to());
            if quantile < 1.0 {
                let beyond = 1.0 / (1.0 - quantile);
                line(format_args!("{value:>12.3} {quantile:>14.12} {count:>10} {beyond:>14.2}"));
            } else {
                line(format_args!("{value:>12.3} {quantile:>14.12} {count:>10}"));
            }
        }
    }
    let (mean, deviation, max) = if histogram.is_empty() {
        (0.0, 0.0, 0.0)
    } else {
        (histogram.mean() / 1e6, histogram.stdev() / 1e6, histogram.max() as f64 / 1e6)
    };
    line(format_args!("#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]"));
    line(format_args!("#[Max     = {max:>12.3}, Total count    = {:>12}]", histogram.len()));
    let (buckets, sub_buckets) = (histogram.buckets(), 2048);
    line(format_args!("#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]"));
    out
}
