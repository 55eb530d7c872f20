//! The reports of apps: their diagnoses, and where in the app the cause is by the stall ledger.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_api::client::Client;
use forkful_api::types::{AppView, DoctorReport};
use forkful_core::doctor::Diagnosis;

/// The time that was examined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) seconds: u64,
    /// How long ago it ended.
    pub(super) ago: Duration,
}

/// The report of an app. If the daemon gives no ledger, the report has no places. So it is for an earlier time, too: the ledger knows only
/// when a place blocked the loop last.
pub(super) async fn report(
    client: &mut Client,
    view: &AppView,
    diagnosis: &Diagnosis,
    seen: Time,
) -> DoctorReport {
    let app = view.definition.name.as_str();
    let report = DoctorReport::new(app, diagnosis).with_trial(view.trial.as_ref());
    if !diagnosis.verdict.has_places() || !seen.ago.is_zero() {
        return report;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_ms = now.saturating_sub(Duration::from_secs(seen.seconds)).as_millis() as u64;
    match client.stalls(app).await {
        Ok(reply) => match reply.apps.iter().find(|stalls| stalls.app == app) {
            Some(stalls) => report.with_places(diagnosis.verdict, stalls, since_ms),
            None => report,
        },
        Err(_) => report,
    }
}
