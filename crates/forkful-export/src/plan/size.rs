//! CPU, memory and replicas: measured if available, otherwise from the configuration, otherwise assumed and
//! marked as such.

use forkful_core::spec::AppSpec;

use super::{REPLICAS_MAX, Request, origin};
use crate::measured::{Candidate, Measured};
use crate::tradeoff::LOAD;
use crate::{ExportError, Figure};

/// Factor for measured memory: heaps grow with the requests of clients.
const MEMORY_ROOM: f64 = 1.5;

/// Factor for `max_memory_restart`: at that limit, a second worker starts before the first one stops.
const RENEWAL_ROOM: f64 = 1.25;

/// Memory of Forkful itself, if only the workers' memory is known.
const FORKFUL_BYTES: u64 = 32 << 20;

/// Memory of a worker without any other information.
const WORKER_BYTES: u64 = 256 << 20;

/// Sizes are rounded up to a multiple of this, so that small differences between measurements do not change
/// the manifest.
const MEMORY_STEP: u64 = 16 << 20;
const CPU_STEP: u32 = 50;

/// Two, so that the app stays available when a pod or its node fails.
const REPLICAS: u16 = 2;

/// Default ratio of the maximum to the minimum number of replicas.
const REPLICAS_GROWTH: u16 = 4;

pub(super) fn cpu(spec: &AppSpec, workers: u16, candidate: Option<&Candidate>) -> Figure<u32> {
    if let Some(cpu) = spec.limits.millicores {
        return Figure::new(cpu, origin(spec, "cpu_max"));
    }
    let Some((candidate, cores)) = candidate.and_then(|one| Some((one, one.cores()?))) else {
        return Figure::new(u32::from(workers) * 1000, "assumed: a core for each worker; not measured");
    };
    let scaled = cores * f64::from(workers) / f64::from(candidate.workers);
    let millicores = ((scaled * 1000.0).clamp(1.0, 1e8) as u32).next_multiple_of(CPU_STEP);
    Figure::new(millicores, format!("{scaled:.2} cores at saturation, {}", by(candidate, workers)))
}

pub(super) fn memory(spec: &AppSpec, workers: u16, candidate: Option<&Candidate>) -> Figure<u64> {
    if let Some(bytes) = spec.limits.memory_bytes {
        return Figure::new(bytes, origin(spec, "memory_max"));
    }
    let many = u64::from(workers);
    if let Some(bytes) = spec.renewal.max_memory_bytes {
        let all = (many.saturating_mul(bytes) as f64 * RENEWAL_ROOM) as u64;
        let source = format!(
            "{RENEWAL_ROOM} x {workers} x {} of each worker ({}) + Forkful",
            mib(bytes),
            origin(spec, "max_memory_restart")
        );
        return Figure::new((all + FORKFUL_BYTES).next_multiple_of(MEMORY_STEP), source);
    }
    let Some(candidate) = candidate else {
        let source = format!("assumed: {workers} x {} + Forkful; not measured", mib(WORKER_BYTES));
        return Figure::new(many * WORKER_BYTES + FORKFUL_BYTES, source);
    };
    let scaled = candidate.memory_bytes as f64 * f64::from(workers) / f64::from(candidate.workers);
    let source = format!("{MEMORY_ROOM} x {} at saturation, {}", mib(scaled as u64), by(candidate, workers));
    Figure::new(((scaled * MEMORY_ROOM) as u64).next_multiple_of(MEMORY_STEP), source)
}

/// The source text of a measured number.
fn by(candidate: &Candidate, workers: u16) -> String {
    if candidate.workers == workers {
        "measured".to_owned()
    } else {
        format!(
            "scaled from {} measured",
            forkful_core::words::count(usize::from(candidate.workers), "worker")
        )
    }
}

/// The minimum and maximum number of pods.
pub(super) fn replicas(
    app: &str,
    request: &Request,
    candidate: Option<&Candidate>,
    workers: u16,
) -> Result<(Figure<u16>, Figure<u16>), ExportError> {
    let min = match (request.replicas, request.rate) {
        (Some(min), _) => Figure::new(min, "--replicas"),
        (None, Some(rate)) => for_rate(app, rate, candidate, workers)?,
        (None, None) => Figure::new(REPLICAS, "default: the app serves on when a pod is lost"),
    };
    let max = match request.replicas_max {
        Some(max) if max < min.value => return Err(ExportError::Replicas { min: min.value, max }),
        Some(max) => Figure::new(max, "--max-replicas"),
        None => {
            let max = min.value.saturating_mul(REPLICAS_GROWTH);
            Figure::new(
                max,
                format!("assumed: {REPLICAS_GROWTH} times the smallest number; --max-replicas sets it"),
            )
        }
    };
    Ok((min, max))
}

/// The number of pods that handle the rate at [`LOAD`].
fn for_rate(
    app: &str,
    rate: u32,
    candidate: Option<&Candidate>,
    workers: u16,
) -> Result<Figure<u16>, ExportError> {
    let candidate = candidate.ok_or_else(|| ExportError::RateUnmeasured { app: app.to_owned() })?;
    let of_pod = candidate.per_second * f64::from(workers) / f64::from(candidate.workers);
    let pods = (f64::from(rate) / (LOAD * of_pod)).ceil().clamp(1.0, 1e12) as u64;
    let found = u16::try_from(pods).ok().filter(|pods| *pods <= REPLICAS_MAX);
    let pods = found.ok_or_else(|| ExportError::RateTooHigh {
        app: app.to_owned(),
        rate,
        pods,
        max: REPLICAS_MAX,
    })?;
    let source =
        format!("{rate} requests/s at 70 % of {of_pod:.0} for each pod ({})", by(candidate, workers));
    Ok(Figure::new(pods.max(REPLICAS), source))
}

/// The autoscaler's target.
pub(super) fn load(workers: u16, measured: Option<&Measured>) -> Figure<u32> {
    let percent = (LOAD * 100.0).round() as u32;
    let p99 = measured.and_then(|measured| measured.candidate(workers)).and_then(|one| one.p99_at_70_ms);
    let source = match p99 {
        Some(p99) => {
            format!("percent of the request; p99 was {p99:.1} ms at this share of the capacity, measured")
        }
        None => "percent of the request; assumed, latency was not measured".to_owned(),
    };
    Figure::new(percent, source)
}

pub(super) fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1_048_576.0)
}
