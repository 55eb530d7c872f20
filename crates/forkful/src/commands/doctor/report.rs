//! The reports of apps: their diagnoses, and where in the app the cause is by the stall ledger.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_api::client::Client;
use forkful_api::types::DoctorReport;
use forkful_core::doctor::Diagnosis;

/// The report of an app whose seconds began this long ago. A daemon that gives no ledger is no reason to give no report.
pub(super) async fn report(
    client: &mut Client,
    app: &str,
    diagnosis: &Diagnosis,
    began_ago: Duration,
) -> DoctorReport {
    let report = DoctorReport::new(app, diagnosis);
    if !diagnosis.verdict.has_places() {
        return report;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_ms = now.saturating_sub(began_ago).as_millis() as u64;
    match client.stalls(app).await {
        Ok(reply) => match reply.apps.iter().find(|stalls| stalls.app == app) {
            Some(stalls) => report.with_places(diagnosis.verdict, stalls, since_ms),
            None => report,
        },
        Err(_) => report,
    }
}
