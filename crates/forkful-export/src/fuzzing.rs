//! Fuzz target: a file of measurements, which may come with someone's configuration.

use std::collections::BTreeMap;

use forkful_core::spec::{AppName, AppSpec, Mode, Runtime};

use crate::measured::{Measured, MeasuredFile};
use crate::plan::{Plan, Request, plans};
use crate::systemd::Host;
use crate::{compose, kubernetes, nomad, quadlet, systemd};

/// A text as `forkful.measured.json`. What is read is the same after it was written, and each app has its manifests on every
/// platform. No text of the file becomes a line of a manifest.
pub fn measured(bytes: &[u8]) {
    let Ok(file) =
        std::str::from_utf8(bytes).map_err(drop).and_then(|text| MeasuredFile::parse(text).map_err(drop))
    else {
        return;
    };
    assert_eq!(MeasuredFile::parse(&file.text()).expect("what was written is read"), file);
    for (name, measured) in &file.apps {
        export(name, measured);
    }
}

fn export(name: &str, measured: &Measured) {
    let Ok(name) = AppName::new(name) else { return };
    let mut spec = AppSpec::new(name.clone());
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    let apps = BTreeMap::from([(name.to_string(), measured.clone())]);
    for (workers, rate) in [(None, None), (Some(3), None), (None, Some(1000))] {
        let request = Request {
            run: vec!["app.js".to_owned()],
            file: "app.js".to_owned(),
            image: Some("registry.example.com/app:1".to_owned()),
            port: Some(3000),
            workers,
            rate,
            ..Request::default()
        };
        // A name may not be possible on a platform, and a rate may need too many replicas.
        let Ok(plans) = plans(&[(spec.clone(), request)], &apps) else { continue };
        plans.iter().for_each(manifests);
    }
}

fn manifests(plan: &Plan) {
    let host = Host {
        program: "/usr/bin/forkful".into(),
        folder: "/srv".into(),
        user: Some("app".to_owned()),
        path: "/usr/bin".to_owned(),
    };
    let texts = [
        kubernetes::manifest(plan),
        compose::file(std::slice::from_ref(plan)),
        nomad::job(plan),
        quadlet::container(plan),
        Ok(systemd::unit(plan, &host)),
    ];
    for text in texts {
        let text = text.expect("the request has all that a platform needs");
        let odd = text.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(odd, None, "a control character in {text}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_measured() {
        forkful_testkit::replay("measured", super::measured);
    }
}
