//! `forkful.measured.json`: measurements of apps by `tune --save`, stored next to their configuration and
//! read by `export`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file's name.
pub const FILE: &str = "forkful.measured.json";

/// The version of its keys.
pub const VERSION: u32 = 1;

/// The largest file that is read; it has room for thousands of candidates.
pub const BYTES_MAX: u64 = 1 << 20;

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFile {
    /// [`VERSION`].
    pub version: u32,
    /// By app name.
    pub apps: BTreeMap<String, Measured>,
}

/// The measurements of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Version of Forkful.
    pub forkful: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// The command that repeats the run, without secrets.
    pub command: String,
    /// `GET /heavy`.
    pub route: String,
    pub machine: MeasuredMachine,
    /// The number of workers that `tune` chose.
    pub workers: u16,
    /// `UV_THREADPOOL_SIZE` that `tune` chose.
    pub pool: u32,
    /// Whether the size of the pool makes a difference.
    pub pool_matters: bool,
    /// All measured numbers of workers with this pool, ascending.
    pub candidates: Vec<Candidate>,
}

/// The machine of the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredMachine {
    pub cores: u16,
    pub cpu: String,
    /// Version of Node.js.
    pub node: String,
}

/// A number of workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    pub workers: u16,
    /// Requests per second at saturation.
    pub per_second: f64,
    /// CPU time per request.
    pub cpu_per_request_us: Option<f64>,
    /// Memory of all processes after saturation; shared pages count once.
    pub memory_bytes: u64,
    /// 99th percentile at 70 % of its own capacity.
    pub p99_at_70_ms: Option<f64>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    #[error("it is not JSON of this form")]
    Form(#[source] serde_json::Error),
    #[error("it has version {0}, and this program knows version {VERSION}")]
    Version(u64),
    #[error("app `{app}`: {what}")]
    Value { app: String, what: &'static str },
}

impl Default for MeasuredFile {
    fn default() -> Self {
        Self { version: VERSION, apps: BTreeMap::new() }
    }
}

impl MeasuredFile {
    /// Parses and checks the text of a file.
    pub fn parse(text: &str) -> Result<Self, MeasuredError> {
        // The version first: other versions may have other keys.
        let value: serde_json::Value = serde_json::from_str(text).map_err(MeasuredError::Form)?;
        if let Some(version) = value.get("version").and_then(serde_json::Value::as_u64)
            && version != u64::from(VERSION)
        {
            return Err(MeasuredError::Version(version));
        }
        let file: Self = serde_json::from_value(value).map_err(MeasuredError::Form)?;
        for (app, measured) in &file.apps {
            measured.check().map_err(|what| MeasuredError::Value { app: app.clone(), what })?;
        }
        Ok(file)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every number in it is finite or null");
        text.push('\n');
        text
    }
}

impl Measured {
    fn check(&self) -> Result<(), &'static str> {
        let workers = 1..=forkful_core::spec::INSTANCES_MAX;
        if !workers.contains(&self.workers)
            || !self.candidates.iter().all(|one| workers.contains(&one.workers))
        {
            return Err("a number of workers is not possible");
        }
        let is_good = |one: &Candidate| {
            let positive = |number: f64| number.is_finite() && number > 0.0 && number < 1e12;
            positive(one.per_second)
                && one.cpu_per_request_us.is_none_or(positive)
                && one.p99_at_70_ms.is_none_or(positive)
                && (1..1 << 50).contains(&one.memory_bytes)
        };
        if !self.candidates.iter().all(is_good) {
            return Err("a measured number is not possible");
        }
        if self.candidate(self.workers).is_none() {
            return Err("the number of workers that was chosen is not among the candidates");
        }
        Ok(())
    }

    /// The measurement with this number of workers.
    pub fn candidate(&self, workers: u16) -> Option<&Candidate> {
        self.candidates.iter().find(|one| one.workers == workers)
    }

    /// The measurement with the nearest number of workers, preferring the smaller; the base for scaling to
    /// other numbers.
    pub fn nearest(&self, workers: u16) -> Option<&Candidate> {
        self.candidates.iter().min_by_key(|one| (one.workers.abs_diff(workers), one.workers))
    }
}

impl Candidate {
    /// Cores used at saturation.
    pub fn cores(&self) -> Option<f64> {
        self.cpu_per_request_us.map(|cpu| self.per_second * cpu / 1e6)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An app for which two cores and two workers are best.
    pub(crate) fn measured() -> Measured {
        let one = |workers, per_second, cpu, mib: u64, p99| Candidate {
            workers,
            per_second,
            cpu_per_request_us: Some(cpu),
            memory_bytes: mib << 20,
            p99_at_70_ms: p99,
        };
        Measured {
            forkful: "0.1.0".to_owned(),
            created_at_ms: 1_795_478_400_000,
            command: "forkful tune forkful.config.json --path /heavy --save --seed 7".to_owned(),
            route: "GET /heavy".to_owned(),
            machine: MeasuredMachine { cores: 2, cpu: "AMD EPYC".to_owned(), node: "v24.1.0".to_owned() },
            workers: 2,
            pool: 4,
            pool_matters: false,
            candidates: vec![
                one(1, 460.0, 2_150.0, 55, Some(9.5)),
                one(2, 880.0, 2_130.0, 100, Some(12.25)),
                one(4, 900.0, 2_160.0, 190, None),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let file = MeasuredFile { apps: [("api".to_owned(), measured())].into(), ..MeasuredFile::default() };
        assert_eq!(MeasuredFile::parse(&file.text()).unwrap(), file);
    }

    #[test]
    fn impossible_files_are_refused_with_the_reason() {
        let refused = |change: &dyn Fn(&mut MeasuredFile)| {
            let mut file =
                MeasuredFile { apps: [("api".to_owned(), measured())].into(), ..MeasuredFile::default() };
            change(&mut file);
            MeasuredFile::parse(&file.text()).expect_err("it is impossible").to_string()
        };
        let of = |change: fn(&mut Measured)| refused(&move |file| change(file.apps.get_mut("api").unwrap()));
        assert_eq!(refused(&|file| file.version = 9), "it has version 9, and this program knows version 1");
        assert_eq!(of(|api| api.workers = 0), "app `api`: a number of workers is not possible");
        assert_eq!(
            of(|api| api.candidates[0].per_second = -1.0),
            "app `api`: a measured number is not possible"
        );
        assert_eq!(
            of(|api| api.candidates[0].memory_bytes = 0),
            "app `api`: a measured number is not possible"
        );
        assert_eq!(
            of(|api| api.workers = 3),
            "app `api`: the number of workers that was chosen is not among the candidates"
        );
        assert_eq!(MeasuredFile::parse("[1]").unwrap_err().to_string(), "it is not JSON of this form");
        assert_eq!(MeasuredFile::parse("{").unwrap_err().to_string(), "it is not JSON of this form");
    }

    #[test]
    fn other_numbers_are_scaled_from_the_nearest() {
        let measured = measured();
        assert_eq!([1, 3, 9].map(|workers| measured.nearest(workers).unwrap().workers), [1, 2, 4]);
        assert!((measured.candidate(2).unwrap().cores().unwrap() - 1.8744).abs() < 1e-4);
    }
}
