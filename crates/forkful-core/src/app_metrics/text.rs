//! Merged reports as text for Prometheus.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use super::report::{AppFamily, AppReport, Sample, SampleKind, point_label};
use crate::metrics::exposition::{Format, escaped, number};

/// The families of apps as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppPage {
    pub text: String,
    /// For each app, what is not in the text: what made no sense, was beyond the bounds, or has a name of other metrics.
    pub left_out: Vec<u32>,
}

/// A family of the page under way.
struct Written<'a> {
    first: &'a AppFamily,
    body: String,
}

/// Writes the merged report of each app. With a name, samples have the label `app`, and a label of this name is called
/// `exported_app`. What has a name that `is_taken` is left out.
pub fn app_page(
    apps: &[(Option<&str>, &AppReport)],
    format: Format,
    is_taken: impl Fn(&str) -> bool,
) -> AppPage {
    let mut page = AppPage::default();
    let mut families: BTreeMap<&str, Written<'_>> = BTreeMap::new();
    let mut claimed: HashSet<String> = HashSet::new();
    for (app, report) in apps {
        let mut left_out = report.left_out;
        // Other registries are what the app shows elsewhere.
        let shown = report.families.iter().filter(|family| family.registry.is_empty());
        for family in shown.filter(|family| !family.samples.is_empty()) {
            let is_known = match families.get(family.name.as_str()) {
                Some(written) => written.first.kind == family.kind,
                None => {
                    let names = names_of(family, format);
                    let is_free = names.iter().all(|name| !is_taken(name) && !claimed.contains(name));
                    if is_free {
                        claimed.extend(names);
                        families.insert(&family.name, Written { first: family, body: String::new() });
                    }
                    is_free
                }
            };
            match families.get_mut(family.name.as_str()).filter(|_| is_known) {
                Some(written) => left_out += write_samples(&mut written.body, family, *app, format),
                None => left_out += 1,
            }
        }
        page.left_out.push(left_out);
    }
    for (_, Written { first, body }) in families {
        let kind = match first.kind {
            SampleKind::Counter => "counter",
            SampleKind::Gauge => "gauge",
            SampleKind::Histogram => "histogram",
            SampleKind::Summary => "summary",
        };
        let name = if format == Format::OpenMetrics { base_name(first) } else { &first.name };
        let help = escaped(&first.help, format == Format::OpenMetrics);
        // A String takes everything.
        let _written = write!(page.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{body}");
    }
    page
}

/// A counter's name without the ending that it has in `OpenMetrics`.
fn base_name(family: &AppFamily) -> &str {
    let is_counter = family.kind == SampleKind::Counter;
    family.name.strip_suffix("_total").filter(|_| is_counter).unwrap_or(&family.name)
}

/// The names that samples of a family have.
fn names_of(family: &AppFamily, format: Format) -> Vec<String> {
    let is_total = format == Format::OpenMetrics && family.kind == SampleKind::Counter;
    let (name, suffixes): (_, &[&str]) = match family.kind {
        SampleKind::Counter if is_total => (base_name(family), &["_total"]),
        SampleKind::Counter | SampleKind::Gauge => (&family.name, &[""]),
        SampleKind::Histogram => (&family.name, &["", "_bucket", "_sum", "_count"]),
        SampleKind::Summary => (&family.name, &["", "_sum", "_count"]),
    };
    suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect()
}

/// Says how many samples could not be written.
fn write_samples(body: &mut String, family: &AppFamily, app: Option<&str>, format: Format) -> u32 {
    let mut left_out = 0;
    for sample in &family.samples {
        if app.is_some() && sample.labels.iter().any(|(name, _)| name == "exported_app") {
            left_out += 1;
            continue;
        }
        let is_total = format == Format::OpenMetrics && family.kind == SampleKind::Counter;
        let (name, suffix) = if is_total {
            (base_name(family), "_total")
        } else {
            (family.name.as_str(), sample.part.suffix())
        };
        body.push_str(name);
        body.push_str(suffix);
        write_labels(body, family, sample, app);
        body.push(' ');
        body.push_str(&number(sample.value));
        body.push('\n');
    }
    left_out
}

fn write_labels(body: &mut String, family: &AppFamily, sample: &Sample, app: Option<&str>) {
    let renamed = |name: &'_ str| {
        if app.is_some() && name == "app" { "exported_app".to_owned() } else { name.to_owned() }
    };
    let own = sample.labels.iter().map(|(name, value)| (renamed(name), value.as_str()));
    let point = point_label(family.kind, sample.part).zip(sample.point.as_deref());
    let all = app.into_iter().map(|app| ("app".to_owned(), app)).chain(own);
    for (at, (name, value)) in all.chain(point.map(|(name, value)| (name.to_owned(), value))).enumerate() {
        body.push(if at == 0 { '{' } else { ',' });
        // A String takes everything.
        let _written = write!(body, "{name}=\"{}\"", escaped(value, true));
    }
    if body.ends_with('"') {
        body.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(families: &[(&str, &str, &str)]) -> AppReport {
        let families: Vec<_> = families
            .iter()
            .map(|(name, kind, values)| {
                format!(r#"{{"name":"{name}","help":"About {name}.","type":"{kind}","values":[{values}]}}"#)
            })
            .collect();
        AppReport::read(&format!("[{}]", families.join(","))).unwrap()
    }

    fn two_apps(format: Format) -> AppPage {
        let web = report(&[
            ("hits_total", "counter", r#"{"value":3,"labels":{"path":"/\"\\\n","app":"own"}}"#),
            (
                "took",
                "histogram",
                r#"{"metricName":"took_bucket","labels":{"le":"+Inf"},"value":2},{"metricName":"took_sum","value":0.5},{"metricName":"took_count","value":2}"#,
            ),
            (
                "size",
                "summary",
                r#"{"labels":{"quantile":"0.5"},"value":"NaN"},{"metricName":"size_count","value":0}"#,
            ),
        ]);
        let api = report(&[
            ("hits_total", "counter", r#"{"value":1}"#),
            ("took", "gauge", r#"{"value":1}"#),
            ("took_sum", "gauge", r#"{"value":1}"#),
            ("taken", "gauge", r#"{"value":1}"#),
            ("cold", "gauge", r#"{"value":"-Inf"},{"value":1,"labels":{"exported_app":"x"}}"#),
            ("none", "gauge", ""),
        ]);
        let own = r#"[{"name":"elsewhere","registry":"elsewhere#0","type":"gauge","values":[{"value":1}]}]"#;
        let mut api = api;
        api.families.extend(AppReport::read(own).unwrap().families);
        app_page(&[(Some("web"), &web), (Some("api"), &api)], format, |name| name == "taken")
    }

    #[test]
    fn families_of_several_apps_are_together_and_have_free_names() {
        let page = two_apps(Format::Prometheus);
        insta::assert_snapshot!(page.text, @r#"
        # HELP cold About cold.
        # TYPE cold gauge
        cold{app="api"} -Inf
        # HELP hits_total About hits_total.
        # TYPE hits_total counter
        hits_total{app="web",exported_app="own",path="/\"\\\n"} 3.0
        hits_total{app="api"} 1.0
        # HELP size About size.
        # TYPE size summary
        size{app="web",quantile="0.5"} NaN
        size_count{app="web"} 0.0
        # HELP took About took.
        # TYPE took histogram
        took_bucket{app="web",le="+Inf"} 2.0
        took_sum{app="web"} 0.5
        took_count{app="web"} 2.0
        "#);
        assert_eq!(page.left_out, [0, 4]);
    }

    #[test]
    fn openmetrics_has_its_own_names_of_counters() {
        let page = two_apps(Format::OpenMetrics);
        assert!(page.text.contains("# TYPE hits counter\nhits_total{app=\"web\""), "{}", page.text);
        let plain = report(&[("hits", "counter", r#"{"value":1}"#)]);
        let written = |format| app_page(&[(None, &plain)], format, |_| false).text;
        assert!(written(Format::OpenMetrics).ends_with("# TYPE hits counter\nhits_total 1.0\n"));
        assert!(written(Format::Prometheus).ends_with("# TYPE hits counter\nhits 1.0\n"));
    }
}
