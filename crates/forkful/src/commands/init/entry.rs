//! Finds a directory's app from its package.json.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Scripts to look for if the package names none.
const USUAL: &[&str] = &["server.js", "app.js", "index.js", "src/index.js"];

/// What to start.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Entry {
    /// The script.
    pub(in crate::commands) script: String,
    /// Its arguments.
    pub(in crate::commands) args: Vec<String>,
    /// Whether several processes of it can share a port.
    pub(in crate::commands) is_script: bool,
}

/// A directory with its package.json, if there is one.
pub(in crate::commands) struct Package {
    directory: PathBuf,
    json: Value,
    /// Whether its `.js` files are ES modules.
    pub(in crate::commands) is_module: bool,
}

impl Package {
    pub(in crate::commands) fn of(directory: &Path) -> Self {
        let text = fs_err::read_to_string(directory.join("package.json")).unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let is_module = json["type"] == "module";
        Self { directory: directory.to_owned(), json, is_module }
    }

    /// The script of `npm start`, if that is `node` with a file; otherwise `main`; otherwise a file with a
    /// usual name; otherwise `npm start` itself.
    pub(in crate::commands) fn entry(&self) -> Entry {
        let of_script = |script: String| Entry { script, args: Vec::new(), is_script: true };
        let start = self.json["scripts"]["start"].as_str();
        if let Some(entry) = start.and_then(|line| self.of_node(line)) {
            return entry;
        }
        let main = self.json["main"].as_str().and_then(|main| self.file(main));
        let usual =
            || USUAL.iter().find(|file| self.directory.join(file).is_file()).map(|file| (*file).to_owned());
        if let Some(script) = main.or_else(usual) {
            return of_script(script);
        }
        match start {
            Some(_) => Entry { script: "npm".to_owned(), args: vec!["start".to_owned()], is_script: false },
            None => of_script("app.js".to_owned()),
        }
    }

    /// `node server.js --port 80`, without Node.js options.
    fn of_node(&self, line: &str) -> Option<Entry> {
        let words = shell_words::split(line).ok()?;
        let (program, rest) = words.split_first()?;
        let (script, args) = rest.split_first()?;
        if program != "node" || script.starts_with('-') || line.contains(['&', '|', ';', '>', '$']) {
            return None;
        }
        Some(Entry { script: self.file(script)?, args: args.to_vec(), is_script: true })
    }

    /// The file that Node.js would load for a name.
    fn file(&self, name: &str) -> Option<String> {
        let name = name.trim_start_matches("./").trim_end_matches('/');
        [name.to_owned(), format!("{name}.js"), format!("{name}/index.js")]
            .into_iter()
            .find(|file| self.directory.join(file).is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(package: &str, files: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("package.json"), package).unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        let Entry { script, args, .. } = Package::of(dir.path()).entry();
        [vec![script], args].concat().join(" ")
    }

    #[test]
    fn a_package_says_what_its_app_is() {
        let main = r#"{ "main": "./lib" }"#;
        assert_eq!(entry(main, &["lib/index.js", "server.js"]), "lib/index.js");
        assert_eq!(entry(r#"{ "main": "gone.js" }"#, &["server.js"]), "server.js");
        let start = r#"{ "main": "lib.js", "scripts": { "start": "node ./bin/www --port 80" } }"#;
        assert_eq!(entry(start, &["lib.js", "bin/www"]), "bin/www --port 80");
        assert_eq!(entry(r#"{ "scripts": { "start": "next start" } }"#, &[]), "npm start");
        assert_eq!(entry(r#"{ "scripts": { "start": "node a.js && node b.js" } }"#, &["a.js"]), "npm start");
        assert_eq!(entry("{}", &[]), "app.js");
    }
}
