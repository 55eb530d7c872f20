//! Nomad: a job for an app, with the Docker driver
//! (<https://developer.hashicorp.com/nomad/docs/job-specification>).
//!
//! Nomad's own features are used for the delay for load balancers (`shutdown_delay`), for rollouts and for
//! the number of allocations.

use crate::plan::{PROBES_PORT, Plan, Probes};
use crate::{ExportError, Figure};

/// Writes indented lines of HCL.
struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(&"  ".repeat(self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// `key = value`, with the value's source as a comment.
    fn set(&mut self, key: &str, value: &str, source: &str) {
        let source = source.replace(char::is_control, " ");
        let comment = if source.is_empty() { String::new() } else { format!(" # {source}") };
        self.line(&format!("{key} = {value}{comment}"));
    }

    fn block(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }
}

/// An HCL string without templates.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    // `${` and `%{` begin templates; doubling escapes them.
    format!("{}\"", out.replace("${", "$${").replace("%{", "%%{"))
}

/// The job.
pub fn job(plan: &Plan) -> Result<String, ExportError> {
    let image = plan.image.as_ref().ok_or_else(|| ExportError::NoImage { app: plan.app.clone() })?;
    let mut writer = Writer { text: plan.comment_with_tradeoff(), depth: 0 };
    writer.block(&format!("job {}", quoted(&plan.name)), |job| {
        job.set("type", "\"service\"", "");
        job.block("update", |update| {
            update.set("max_parallel", "1", "");
            update.set("canary", "1", "a new allocation comes before an old one goes");
            update.set("auto_promote", "true", "");
            update.set("auto_revert", "true", "");
            update.set("healthy_deadline", &seconds(plan.start.value.into()), &plan.start.source);
            update.set("progress_deadline", &seconds(u64::from(plan.start.value) * 2 + 60), "");
        });
        job.block(&format!("group {}", quoted(&plan.name)), |group| self::group(group, plan, image));
    });
    Ok(writer.text)
}

fn seconds(seconds: u64) -> String {
    format!("\"{seconds}s\"")
}

fn group(group: &mut Writer, plan: &Plan, image: &str) {
    group.set("count", &plan.replicas.value.to_string(), &plan.replicas.source);
    if plan.replicas_max.value > plan.replicas.value {
        group.block("scaling", |scaling| self::scaling(scaling, plan));
    }
    group.block("spread", |spread| spread.set("attribute", &quoted_reference("node.unique.id"), ""));
    group.block("network", |network| {
        if let Some(port) = &plan.port {
            network.block("port \"http\"", |to| to.set("to", &port.value.to_string(), &port.source));
        }
        network.block("port \"probes\"", |to| to.set("to", &PROBES_PORT.to_string(), "forkful run --probes"));
    });
    group.block("service", |service| {
        service.set("name", &quoted(&plan.name), "");
        service.set("provider", "\"nomad\"", "");
        let port = if plan.port.is_some() { "\"http\"" } else { "\"probes\"" };
        service.set("port", port, "");
        service.block("check", |check| {
            check.set("type", "\"http\"", "");
            check.set("port", "\"probes\"", "");
            check.set("path", "\"/readyz\"", "");
            check.set("interval", "\"2s\"", "");
            check.set("timeout", "\"2s\"", "");
        });
    });
    group.block(&format!("task {}", quoted(&plan.name)), |task| self::task(task, plan, image));
}

fn scaling(scaling: &mut Writer, plan: &Plan) {
    scaling.set("min", &plan.replicas.value.to_string(), &plan.replicas.source);
    scaling.set("max", &plan.replicas_max.value.to_string(), &plan.replicas_max.source);
    scaling.block("policy", |policy| {
        policy.block("check \"cpu\"", |check| {
            check.set("source", "\"nomad-apm\"", "");
            check.set("query", "\"avg_cpu-allocated\"", "");
            check.block("strategy \"target-value\"", |strategy| {
                strategy.set("target", &plan.load_percent.value.to_string(), &plan.load_percent.source);
            });
        });
    });
}

fn task(task: &mut Writer, plan: &Plan, image: &str) {
    task.set("driver", "\"docker\"", "");
    if plan.delay.value > 0 {
        task.set("shutdown_delay", &seconds(plan.delay.value), &plan.delay.source);
    }
    task.set("kill_signal", "\"SIGTERM\"", "");
    let above =
        if plan.stop.value > 30 { "; clients allow 30s unless max_kill_timeout says more" } else { "" };
    task.set("kill_timeout", &seconds(plan.stop.value), &format!("{}{above}", plan.stop.source));
    task.extend_user(plan);
    task.block("config", |config| {
        config.set("image", &quoted(image), "");
        let words = plan.command(Probes::Open);
        config.set("command", &quoted(&words[0].value), "");
        config.line("args = [");
        config.depth += 1;
        for Figure { value, source } in &words[1..] {
            let comment = if source.is_empty() { String::new() } else { format!(" # {source}") };
            config.line(&format!("{},{comment}", quoted(value)));
        }
        config.depth -= 1;
        config.line("]");
        let ports = if plan.port.is_some() { "[\"http\", \"probes\"]" } else { "[\"probes\"]" };
        config.set("ports", ports, "");
        config.set("readonly_rootfs", "true", "");
        config.set("cap_drop", "[\"all\"]", "");
        config.block("mount", |mount| {
            mount.set("type", "\"tmpfs\"", "");
            mount.set("target", "\"/tmp\"", "");
            mount.set("readonly", "false", "");
        });
    });
    if !plan.env.is_empty() {
        task.block("env", |env| {
            for (name, value) in &plan.env {
                env.set(name, &quoted(&value.value), &value.source);
            }
        });
    }
    task.block("resources", |resources| {
        let cores = plan.cpu.value.div_ceil(1000).max(1);
        resources.set("cores", &cores.to_string(), &format!("whole cores: {}", plan.cpu.source));
        resources.set("memory", &plan.memory.value.div_ceil(1 << 20).to_string(), &plan.memory.source);
    });
}

impl Writer {
    fn extend_user(&mut self, plan: &Plan) {
        if let Some((uid, gid)) = plan.user {
            self.set("user", &quoted(&format!("{uid}:{gid}")), "the user of the configuration");
        }
    }
}

/// A reference that Nomad expands when the job runs.
fn quoted_reference(name: &str) -> String {
    format!("\"${{{name}}}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::measured;
    use crate::plan::tests::{app, planned};

    #[test]
    fn a_job_for_an_app_that_was_measured() {
        let (spec, mut request) = app();
        request.env.insert("GREETING".to_owned(), "${HOME} \"%{if}\"\n}".to_owned());
        insta::assert_snapshot!(job(&planned(&spec, &request, Some(&measured()))).unwrap());
    }

    #[test]
    fn without_a_port_the_service_is_its_probes() {
        let (spec, mut request) = app();
        request.no_port = true;
        let text = job(&planned(&spec, &request, None)).unwrap();
        assert!(!text.contains("\"http\"]") && !text.contains("shutdown_delay"), "{text}");
        assert!(text.contains("port = \"probes\""), "{text}");
    }
}
