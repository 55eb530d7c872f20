//! The load engine without the command: `load URL CONNECTIONS SECONDS [THREADS] [PIPELINING] [close|prompt]`.
//! For profiling and for comparing with other generators; prints one line of JSON.

use std::time::Duration;

use forkful_load::{LoadError, Plan, Reuse, Stop, StopHandle, Threads, run};

fn main() -> Result<(), LoadError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize, default: &str| arguments.get(index).map_or(default, String::as_str).to_owned();
    let number = |index, default: &str| text(index, default).parse::<f64>().unwrap_or(1.0);
    let mut plan = Plan::get(&text(0, "http://127.0.0.1:8000/"))?;
    plan.connections = number(1, "64") as usize;
    plan.stop = Stop::Duration(Duration::from_secs_f64(number(2, "4")));
    plan.threads = Threads::Count(number(3, "1") as usize);
    plan.pipelining = number(4, "1") as usize;
    match text(5, "").as_str() {
        "close" => plan.reuse = Reuse::Never,
        "prompt" => plan.gathering = false,
        _ => {}
    }
    let report = run(&plan, &mut |_| {}, &StopHandle::new())?;
    let at = |quantile| report.response.value_at_quantile(quantile) as f64 / 1e6;
    println!(
        "{{\"requests\":{},\"seconds\":{:.6},\"per_second\":{:.1},\"cpu_seconds\":{:.4},\"thread_cpu_seconds\":{:.4},\
         \"errors\":{},\"p50_ms\":{:.4},\"p99_ms\":{:.4},\"events_per_wake\":{:.2},\"pauses\":{},\"residency_p99_ms\":{:.4},\"memory_bytes\":{}}}",
        report.counts.completed,
        report.elapsed.as_secs_f64(),
        report.per_second(),
        report.cpu_seconds,
        report.threads.iter().map(|thread| thread.cpu_seconds).sum::<f64>(),
        report.errors_total(),
        at(0.5),
        at(0.99),
        report.events_per_wake,
        report.threads.iter().map(|thread| thread.pauses).sum::<u64>(),
        report.residency.value_at_quantile(0.99) as f64 / 1e6,
        report.memory_bytes.1,
    );
    for error in &report.errors {
        eprintln!("{} {} {:?}", error.count, error.cause, error.examples);
    }
    Ok(())
}
