//! Settings that `set` keeps: PM2's `module:key` and values, in `$FORKFUL_HOME/settings.json`, for its owner alone.
//!
//! Those of log rotation, under PM2's names of the module pm2-logrotate or under our own, are the defaults of apps
//! that have no `log_rotate`. All others are kept for whoever reads them with `get`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forkful_core::logs::LogRotation;
use forkful_os::identity::LockFile;

use crate::exit::{Exit, Failure};

/// The most bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long a change waits for others that are under way; each takes some milliseconds.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it looks.
const LOCK_EVERY: Duration = Duration::from_millis(5);
/// The longest key.
const KEY_BYTES_MAX: usize = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    path: PathBuf,
    pub(crate) values: BTreeMap<String, String>,
}

/// A key of log rotation: under which names it is set, and what it is called in `log_rotate`.
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

impl Settings {
    /// Reads the settings of a home; there need not be any.
    pub(crate) fn load(home: &Path) -> Result<Self, Failure> {
        let path = home.join("settings.json");
        let broken = |error: anyhow::Error| {
            Failure::caused(Exit::WrongUse, error.context("the settings cannot be read"))
                .hint(format!("mend or remove {}", path.display()))
        };
        let file = match fs_err::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self { path, ..Self::default() }),
            Err(error) => return Err(broken(error.into())),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| broken(error.into()))?;
        let values = serde_json::from_str(&text).map_err(|error| {
            broken(anyhow::Error::new(error).context(format!("{} holds no settings", path.display())))
        })?;
        Ok(Self { path, values })
    }

    /// Reads the settings, changes them and writes them, while nobody else does. Nothing is written when the
    /// change fails.
    pub(crate) fn change<T>(
        home: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Released when it is closed, also by the end of the process.
        let _lock = lock(&home.join("settings.lock"))?;
        let mut settings = Self::load(home)?;
        let changed = change(&mut settings)?;
        settings.save()?;
        Ok(changed)
    }

    /// Puts a value under a key. One that is acted upon must make sense.
    pub(crate) fn set(&mut self, key: String, value: String) -> Result<(), Failure> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(|c| c.is_control() || c == ' ') {
            let error = format!("invalid key {key:?}; expected 1 to {KEY_BYTES_MAX} letters without spaces");
            return Err(Failure::new(Exit::WrongUse, error)
                .hint("a key is a module and a name, as in `forkful set pm2-logrotate:max_size 50M`"));
        }
        if let Some(name) = rotation_key(&key) {
            forkful_config::set_log_rotation(&mut LogRotation::default(), name, rotation_value(&value))
                .map_err(|fault| {
                    Failure::new(Exit::WrongUse, format!("{key} is {value:?}; expected {fault}"))
                })?;
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// Forgets a key; `all` forgets all. Whether there was anything.
    pub(crate) fn unset(&mut self, key: &str) -> bool {
        if key == "all" {
            return !std::mem::take(&mut self.values).is_empty();
        }
        self.values.remove(key).is_some()
    }

    /// Writes them: into a draft, which then takes the file's name.
    fn save(&self) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.values).expect("texts are JSON") + "\n";
        if text.len() as u64 > FILE_BYTES_MAX {
            let error =
                format!("the settings would take {} bytes, but {FILE_BYTES_MAX} are the most", text.len());
            return Err(Failure::new(Exit::WrongUse, error));
        }
        forkful_os::replace::replace(&self.path, 0o600, text.as_bytes()).map_err(|error| {
            Failure::caused(Exit::Failed, anyhow::Error::new(error).context("the settings cannot be written"))
        })
    }

    /// What log rotation is for apps that say nothing of it. What makes no sense was refused when it was set.
    pub(crate) fn log_rotation(&self) -> LogRotation {
        let mut rotation = LogRotation::default();
        for (key, name) in ROTATION {
            if let Some(value) = self.values.get(*key) {
                drop(forkful_config::set_log_rotation(&mut rotation, name, rotation_value(value)));
            }
        }
        rotation
    }
}

/// The only hold of a file. The file stays: who removed it could let in two at once.
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
                return Err(
                    failed(error).hint("a `forkful set` that was suspended holds the lock; end that process")
                );
            }
        }
    }
}

/// `module.key` as `module:key`.
pub(crate) fn normal_key(written: &str) -> String {
    match written.split_once([':', '.']) {
        Some((module, key)) => format!("{module}:{key}"),
        None => written.to_owned(),
    }
}

/// What a key is called in `log_rotate`, if it is acted upon.
pub(crate) fn rotation_key(key: &str) -> Option<&'static str> {
    ROTATION.iter().find(|(known, _)| *known == key).map(|(_, name)| *name)
}

/// PM2's word for no bound.
fn rotation_value(value: &str) -> &str {
    if value == "all" { "10000" } else { value }
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

    /// A fuzz target: whatever `settings.json` holds, it is read or refused with its name; what is read serves as
    /// defaults, and is the same when it is written.
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
        assert_eq!(rotation.total, LogRotation::default().total);
    }

    #[test]
    fn a_point_separates_as_a_colon_does() {
        assert_eq!(normal_key("pm2-logrotate.max_size"), "pm2-logrotate:max_size");
        assert_eq!(normal_key("a:b.c"), "a:b.c");
        assert_eq!(normal_key("plain"), "plain");
    }
}
