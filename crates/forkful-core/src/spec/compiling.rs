//! Programs that compile an app before running it: for seconds none of the app's code runs.

use super::Launch;

/// Programs that compile a script and run it, and the packages with which Node.js does the same.
const COMPILERS: [&str; 18] = [
    "@babel",
    "@swc-node",
    "babel-node",
    "esbuild-register",
    "esbuild-runner",
    "esno",
    "esr",
    "jiti",
    "sucrase",
    "sucrase-node",
    "ts-node",
    "ts-node-cwd",
    "ts-node-dev",
    "ts-node-esm",
    "ts-node-transpile-only",
    "tsnd",
    "tsx",
    "vite-node",
];

impl Launch {
    /// Whether the app is compiled first, by the interpreter (`ts-node`, a command line with `tsx`) or by a
    /// module that Node.js loads (`--import tsx`, also in `NODE_OPTIONS`).
    pub fn compiles_first(&self) -> bool {
        let is_compiler = |name: &str| COMPILERS.contains(&name);
        let is_file_of_one = |path: &str| path.rsplit('/').next().is_some_and(is_compiler);
        let loads_one = |option: &str| option.split(['/', '=']).any(is_compiler);
        let options = self.env.get("NODE_OPTIONS").map(String::as_str).unwrap_or_default();
        is_file_of_one(&self.program.to_string_lossy())
            || self.script.iter().flat_map(|script| script.split_whitespace()).any(is_file_of_one)
            || self.program_args.iter().any(|option| loads_one(option))
            || options.split_whitespace().any(loads_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{EnvSources, Runtime};

    fn launch(program: &str, program_args: &[&str], script: Option<&str>, node_options: &str) -> Launch {
        Launch {
            program: program.into(),
            program_args: program_args.iter().map(|arg| (*arg).to_owned()).collect(),
            script: script.map(str::to_owned),
            args: vec!["tsx".to_owned()],
            cwd: "/srv/tsx".into(),
            env: [("NODE_OPTIONS".to_owned(), node_options.to_owned())].into(),
            env_sources: EnvSources::default(),
            run_as: None,
            runtime: Runtime::Other,
            node_major: None,
        }
    }

    #[test]
    fn compilers_are_known_by_their_names() {
        let compile = [
            launch("/srv/node_modules/.bin/ts-node", &[], Some("/srv/app.ts"), ""),
            launch("/srv/node_modules/.bin/tsx", &["watch"], Some("/srv/app.ts"), ""),
            launch("/usr/bin/node", &["--import", "tsx"], Some("/srv/app.ts"), ""),
            launch("/usr/bin/node", &["--import=tsx"], Some("/srv/app.ts"), ""),
            launch("/usr/bin/node", &["-r", "ts-node/register"], Some("/srv/app.ts"), ""),
            launch(
                "/usr/bin/node",
                &["--loader=/srv/node_modules/tsx/dist/loader.mjs"],
                Some("/srv/app.ts"),
                "",
            ),
            launch("/usr/bin/node", &[], Some("/srv/app.ts"), "--max-old-space-size=99 --import tsx"),
            launch("/usr/bin/node", &[], Some("/srv/node_modules/.bin/babel-node"), ""),
            launch("/bin/sh", &["-c"], Some("npx tsx app.ts"), ""),
        ];
        for launch in compile {
            assert!(launch.compiles_first(), "{launch:?}");
        }
        let run = [
            launch("/usr/bin/node", &[], Some("/srv/app.tsx"), ""),
            launch("/usr/bin/node", &["--enable-source-maps"], Some("/srv/tsx/app.js"), "--require ./tsx.js"),
            launch("/usr/bin/python3", &["-u"], Some("/srv/app.py"), ""),
            launch("/srv/ts-node/server", &[], None, ""),
        ];
        for launch in run {
            assert!(!launch.compiles_first(), "{launch:?}");
        }
    }
}
