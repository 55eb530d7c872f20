//! What an app that exists keeps when it is defined again: the variables that it inherited, and the program that was found in
//! their PATH. The shell of a later command, such as one of cron or ssh, may have others.

use std::collections::BTreeSet;

use super::Launch;

impl Launch {
    /// Replaces what came from the caller's environment by what the app has had from the environment of its start. The caller's
    /// value of a variable counts where the app's own is unknown: it was not saved, or the definition had set the variable or kept
    /// it out before and no longer does.
    pub fn keep_inherited(&mut self, before: &Self) {
        let sources = &mut self.env_sources;
        let had = |name: &String| before.env_sources.inherited.contains(name);
        let is_replaced = |name: &String| {
            before.env_sources.filter.admits(name) && before.env.contains_key(name) == had(name)
        };
        let (replaced, rest): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut sources.inherited).into_iter().partition(is_replaced);
        self.env.retain(|name, _| !replaced.contains(name));
        sources.inherited = rest;
        for (name, value) in before.env.iter().filter(|(name, _)| had(name)) {
            if sources.filter.admits(name) && !self.env.contains_key(name) {
                sources.inherited.insert(name.clone());
                self.env.insert(name.clone(), value.clone());
            }
        }
        // The values of these may be known to a later caller.
        let is_unsaved = |name: &&String| !before.env.contains_key(*name) && !self.env.contains_key(*name);
        let unsaved = before.env_sources.inherited.iter().filter(is_unsaved);
        sources
            .inherited
            .extend(unsaved.filter(|name| sources.filter.admits(name)).cloned().collect::<Vec<_>>());
        let is_found_alike = sources.in_path.is_some() && sources.in_path == before.env_sources.in_path;
        if is_found_alike && self.env.get("PATH") == before.env.get("PATH") {
            self.program.clone_from(&before.program);
            self.runtime = before.runtime;
            self.node_major = before.node_major.or(self.node_major);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::spec::environment::{EnvFilter, Excluded};
    use crate::spec::{AppName, AppSpec, EnvSources};

    /// A launch of `node`, found in `path`, with variables that were inherited and others that were written.
    fn launch(path: &str, inherited: &[(&str, &str)], written: &[(&str, &str)]) -> Launch {
        let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut env = text(&[("PATH", path)]);
        env.extend(text(inherited));
        let sources = EnvSources {
            inherited: env.keys().cloned().collect(),
            in_path: Some("node".to_owned()),
            ..EnvSources::default()
        };
        env.extend(text(written));
        Launch {
            program: format!("{path}/node").into(),
            env,
            env_sources: sources,
            ..AppSpec::new(AppName::new("app").unwrap()).launch
        }
    }

    fn kept(mut wanted: Launch, before: &Launch) -> (String, String) {
        wanted.keep_inherited(before);
        let inherited = &wanted.env_sources.inherited;
        let variable =
            |(name, value)| format!("{name}={value}{}", if inherited.contains(name) { "" } else { "!" });
        let variables: Vec<String> = wanted.env.iter().map(variable).collect();
        (variables.join(" "), wanted.program.display().to_string())
    }

    #[test]
    fn an_app_keeps_what_it_inherited_and_gets_what_is_written() {
        let before = launch("/nvm", &[("DB", "one"), ("MODE", "shell")], &[("GONE", "1"), ("LEVEL", "1")]);
        let mut wanted = launch("/usr/bin", &[("DB", "two"), ("NEW", "1")], &[("LEVEL", "2")]);
        let expected = ("DB=one LEVEL=2! MODE=shell PATH=/nvm".to_owned(), "/nvm/node".to_owned());
        assert_eq!(kept(wanted.clone(), &before), expected);
        wanted.env.insert("MODE".to_owned(), "file".to_owned());
        assert_eq!(kept(wanted, &before).0, "DB=one LEVEL=2! MODE=file! PATH=/nvm");
    }

    #[test]
    fn the_callers_value_counts_where_that_of_the_app_is_unknown() {
        let mut before = launch("/nvm", &[("DB", "lost")], &[("LEVEL", "1")]);
        before.env.remove("DB");
        let wanted = launch("/usr/bin", &[("DB", "two"), ("LEVEL", "shell")], &[]);
        assert_eq!(kept(wanted, &before).0, "DB=two LEVEL=shell PATH=/nvm");
        let mut of_cron = launch("/usr/bin", &[], &[]);
        of_cron.keep_inherited(&before);
        assert!(of_cron.env_sources.inherited.contains("DB"), "a later caller may have its value");
    }

    #[test]
    fn what_a_definition_no_longer_keeps_out_comes_from_the_caller() {
        let mut before = launch("/nvm", &[], &[]);
        before.env_sources.filter.for_other_users = true;
        assert_eq!(kept(launch("/usr/bin", &[("DB", "two")], &[]), &before).0, "DB=two PATH=/nvm");
    }

    #[test]
    fn what_the_new_definition_leaves_out_is_not_kept() {
        let before = launch("/nvm", &[("AWS_KEY", "1"), ("DB", "1"), ("LANG", "C")], &[]);
        let left_by = |filter: EnvFilter| {
            let mut wanted = launch("/usr/bin", &[], &[]);
            wanted.env_sources.filter = filter;
            kept(wanted, &before).0
        };
        let excluding = |excluded| EnvFilter { excluded, ..EnvFilter::default() };
        assert_eq!(left_by(excluding(Excluded::Parts(vec!["AWS_".to_owned()]))), "DB=1 LANG=C PATH=/nvm");
        assert_eq!(left_by(excluding(Excluded::Name("DB".to_owned()))), "AWS_KEY=1 LANG=C PATH=/nvm");
        assert_eq!(left_by(excluding(Excluded::All)), "");
        assert_eq!(left_by(EnvFilter { for_other_users: true, ..EnvFilter::default() }), "LANG=C PATH=/nvm");
    }

    #[test]
    fn a_program_that_was_named_otherwise_or_is_in_a_written_path_is_the_new_one() {
        let before = launch("/nvm", &[], &[]);
        let program = |wanted: Launch, before: &Launch| kept(wanted, before).1;
        let mut given = launch("/opt", &[], &[]);
        given.env_sources.in_path = None;
        assert_eq!(program(given.clone(), &before), "/opt/node");
        assert_eq!(program(launch("/opt", &[], &[]), &given), "/opt/node");
        let mut written = launch("/opt", &[], &[]);
        written.env_sources.inherited.clear();
        assert_eq!(program(written, &before), "/opt/node");
    }
}
