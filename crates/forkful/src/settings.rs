//! Settings saved by `set`: PM2's `module:key` and values, in `$FORKFUL_HOME/settings.json`, readable only by
//! the owner.
//!
//! Settings of log rotation, under the names of PM2's module pm2-logrotate or under our own, are the defaults
//! for apps without `log_rotate`. All others are only saved, for `get`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forkful_core::logs::LogRotation;
use forkful_os::identity::LockFile;

use crate::exit::{Exit, Failure};

/// Maximum bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long a change waits for others in progress; each takes milliseconds.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
/// Polling interval.
const LOCK_EVERY: Duration = Duration::from_millis(5);
/// The longest key.
const KEY_BYTES_MAX: usize = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    path: PathBuf,
    pub(crate) values: BTreeMap<String, String>,
}

/// Keys of log rotation: the names under which they are set, and their names in `log_rotate`.
const ROTATION: &[(&str, &str)] = &[
    ("pm2-logrotate:max_size", "max_size"),
    ("pm2-logrotate:retain", "keep"),
    ("pm2-logrotate:compress", "compress"),
    ("log_rotate:max_size", "max_size"),
    ("log_rotate:max_age", "max_age"),
    ("log_rotate:keep", "keep"),
    ("log_rotate:total", "total"),
    ("log_rotate:compress", "compress"),
    ("log_rotate:min_free", "min_free"),
];

/// How the names of the settings of PM2's module begin.
pub(crate) const PM2_ROTATION: &str = "pm2-logrotate:";

impl Settings {
    /// Reads the settings of a home, which may have none.
    pub(crate) fn load(home: &Path) -> Result<Self, Failure> {
        let path = home.join("settings.json");
        let broken = |error: anyhow::Error| {
            Failure::caused(Exit::WrongUse, error.context("the settings cannot be read"))
                .hint(format!("fix or remove {}", path.display()))
        };
        let file = match fs_err::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self { path, ..Self::default() }),
            Err(error) => return Err(broken(error.into())),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| broken(error.into()))?;
        let values = serde_json::from_str(&text).map_err(|error| {
            broken(
                anyhow::Error::new(error).context(format!("{} is not a valid settings file", path.display())),
            )
        })?;
        Ok(Self { path, values })
    }

    /// Reads, changes and writes the settings under a lock. Nothing is written if the change fails.
    pub(crate) fn change<T>(
        home: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Released when closed, also when the process exits.
        let _lock = lock(&home.join("settings.lock"))?;
        let mut settings = Self::load(home)?;
        let changed = change(&mut settings)?;
        settings.save()?;
        Ok(changed)
    }

    /// Sets a value. If it has an effect, it must be valid.
    pub(crate) fn set(&mut self, key: String, value: String) -> Result<(), Failure> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(|c| c.is_control() || c == ' ') {
            let error = format!("invalid key {key:?}; expected 1 to {KEY_BYTES_MAX} letters without spaces");
            return Err(Failure::new(Exit::WrongUse, error)
                .hint("a key is a module and a name, as in `forkful set pm2-logrotate:max_size 50M`"));
        }
        if let Some(name) = rotation_key(&key) {
            forkful_config::set_log_rotation(&mut LogRotation::default(), name, rotation_value(name, &value))
                .map_err(|fault| Failure::new(Exit::WrongUse, format!("{key} {fault}")))?;
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// Removes a key, or all with `all`. Returns whether there was anything.
    pub(crate) fn unset(&mut self, key: &str) -> bool {
        if key == "all" {
            return !std::mem::take(&mut self.values).is_empty();
        }
        self.values.remove(key).is_some()
    }

    /// Writes the settings atomically.
    fn save(&self) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.values).expect("texts are JSON") + "\n";
        if text.len() as u64 > FILE_BYTES_MAX {
            let error =
                format!("the settings would take {} bytes; the maximum is {FILE_BYTES_MAX}", text.len());
            return Err(Failure::new(Exit::WrongUse, error));
        }
        forkful_os::replace::replace(&self.path, 0o600, text.as_bytes()).map_err(|error| {
            Failure::caused(Exit::Failed, anyhow::Error::new(error).context("the settings cannot be written"))
        })
    }

    /// The log rotation for apps without their own. Invalid values were refused when they were set.
    pub(crate) fn log_rotation(&self) -> LogRotation {
        let mut rotation = LogRotation::default();
        for (key, name) in ROTATION {
            if let Some(value) = self.values.get(*key) {
                drop(forkful_config::set_log_rotation(&mut rotation, name, rotation_value(name, value)));
            }
        }
        // PM2's module has no bound on all files of an app together, and the two bounds that it has are to hold.
        let has = |key: &str| self.values.contains_key(key);
        let has_pm2s = has("pm2-logrotate:max_size") || has("pm2-logrotate:retain");
        if has_pm2s && !has("log_rotate:total") {
            rotation.total = None;
        }
        rotation
    }
}

/// Locks a file. The file is not removed, because otherwise two processes could hold the lock.
fn lock(path: &Path) -> Result<LockFile, Failure> {
    let failed =
        |error: anyhow::Error| Failure::caused(Exit::Failed, error.context("the settings cannot be written"));
    let until = Instant::now() + LOCK_WAIT_MAX;
    loop {
        let taken = LockFile::acquire(path);
        let what = || format!("cannot lock {}", path.display());
        match taken.map_err(|error| failed(anyhow::Error::new(error).context(what())))? {
            Some(lock) => return Ok(lock),
            None if Instant::now() < until => std::thread::sleep(LOCK_EVERY),
            None => {
                let error = anyhow::anyhow!("another process has held {} for too long", path.display());
                return Err(failed(error)
                    .hint("a `forkful set` that was suspended holds the lock; stop that process"));
            }
        }
    }
}

/// `module.key` as `module:key`. The name of an app may contain a dot, so a colon comes first.
pub(crate) fn normal_key(written: &str) -> String {
    match written.split_once(':').or_else(|| written.split_once('.')) {
        Some((module, key)) => format!("{module}:{key}"),
        None => written.to_owned(),
    }
}

/// The name of a key in `log_rotate`, if the key has an effect.
pub(crate) fn rotation_key(key: &str) -> Option<&'static str> {
    ROTATION.iter().find(|(known, _)| *known == key).map(|(_, name)| *name)
}

/// PM2's word for keeping all files, which `retain` alone has.
fn rotation_value<'a>(name: &str, value: &'a str) -> &'a str {
    if (name, value) == ("keep", "all") { "10000" } else { value }
}

#[cfg(test)]
mod tests {
    use forkful_testkit::{Chance, JSON_TOKENS, Spoil, fuzz};

    use super::*;

    const FILE: &str = r#"{ "pm2-logrotate:max_size": "50M", "pm2-logrotate:retain": "all", "log_rotate:max_age": "2h",
      "log_rotate:min_free": "auto", "log_rotate:total": "1G", "pm2-logrotate:compress": "false", "other": "\u00e4" }"#;

    const TOKENS: &[&[u8]] = &[
        b"all",
        b"9999999999999999G",
        b"-5s",
        b"10000000000d",
        b"\"log_rotate:keep\":\"",
        b"\"log_rotate:max_size\":\"",
        b"\"log_rotate:max_age\":",
        b"\"log_rotate:total\":\"",
    ];

    /// A fuzz target: any `settings.json` is read, or refused with an error that names it. Accepted settings
    /// can be used as defaults, and are the same after writing.
    #[test]
    fn any_file_of_settings_is_read_or_refused() {
        let tokens = [JSON_TOKENS, TOKENS].concat();
        let spoil = Spoil { tokens: &tokens, places: 6, span: 30, copies: 20, pile: 2000 };
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.json");
        let input = |chance: &mut Chance| {
            let mut bytes = FILE.as_bytes().to_vec();
            spoil.spoil(&mut bytes, chance);
            bytes
        };
        let holds = |bytes: &Vec<u8>, _: &mut Chance| {
            fs_err::write(&path, bytes).unwrap();
            let settings = match Settings::load(home.path()) {
                Ok(settings) => settings,
                Err(failure) => {
                    let told = format!("{:#} {}", failure.error, failure.hint.unwrap_or_default());
                    return assert!(told.contains(&path.display().to_string()), "{told}");
                }
            };
            let rotation = settings.log_rotation();
            assert!((1..=LogRotation::KEEP_MAX).contains(&rotation.keep), "{rotation:?}");
            let before = settings.values.clone();
            let changed = Settings::change(home.path(), |settings| Ok(settings.unset("nothing")));
            assert!(matches!(changed, Ok(false)));
            let after = Settings::load(home.path()).map_err(|failure| failure.error).unwrap();
            assert_eq!(after.values, before);
        };
        fuzz(input, holds, |bytes| format!("b\"{}\"", bytes.escape_ascii()));
    }

    #[test]
    fn settings_of_pm2s_module_are_those_of_log_rotation() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("pm2-logrotate:max_size", "50M"),
            ("pm2-logrotate:retain", "all"),
            ("pm2-logrotate:compress", "false"),
            ("log_rotate:max_age", "2h"),
            ("other:max_size", "x"),
        ] {
            settings.set(key.to_owned(), value.to_owned()).map_err(|failure| failure.error).unwrap();
        }
        let rotation = settings.log_rotation();
        assert_eq!(rotation.max_size, Some(50 << 20));
        assert_eq!((rotation.keep, rotation.compress), (LogRotation::KEEP_MAX, false));
        assert_eq!(rotation.max_age, Some(std::time::Duration::from_secs(7200)));
        assert_eq!(rotation.total, None);
        settings
            .set("log_rotate:total".to_owned(), "1G".to_owned())
            .map_err(|failure| failure.error)
            .unwrap();
        assert_eq!(settings.log_rotation().total, Some(1 << 30));
    }

    #[test]
    fn all_is_a_number_of_files_and_no_size() {
        for key in ["log_rotate:total", "pm2-logrotate:max_size", "log_rotate:min_free", "log_rotate:max_age"]
        {
            let failure = Settings::default().set(key.to_owned(), "all".to_owned()).expect_err(key);
            let told = failure.error.to_string();
            assert!(told.starts_with(&format!("{key} is \"all\"; expected")), "{told}");
        }
    }

    #[test]
    fn a_point_separates_as_a_colon_does() {
        assert_eq!(normal_key("pm2-logrotate.max_size"), "pm2-logrotate:max_size");
        assert_eq!(normal_key("a:b.c"), "a:b.c");
        assert_eq!(normal_key("my.app:LOG_LEVEL"), "my.app:LOG_LEVEL");
        assert_eq!(normal_key("plain"), "plain");
    }
}
