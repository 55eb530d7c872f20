//! Commands and options of PM2, and of similar tools, that do not exist here: for each, a message says what to use instead.

/// A command or option that does not exist, and its replacement.
pub(crate) struct Gone {
    /// PM2's names for it.
    pub(crate) words: &'static [&'static str],
    /// Why it does not exist; appended to the name.
    pub(crate) why: &'static str,
    /// What to use instead.
    pub(crate) instead: &'static str,
}

const fn gone(words: &'static [&'static str], why: &'static str, instead: &'static str) -> Gone {
    Gone { words, why, instead }
}

const SERVICE: &str = "belongs to PM2's online service; Forkful has no account and sends nothing anywhere";
const MODULES: &str = "belongs to PM2's modules, of which Forkful has none";
const INSTEAD_OF_SERVICE: &str = "`forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs";
const INSTEAD_OF_MODULES: &str =
    "log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`";
const INSTEAD_OF_PULL: &str =
    "`forkful deploy` brings new code to an app, and back to the version before with `revert`";

/// All of them.
pub(crate) const GONE: &[Gone] = &[
    gone(&["plus", "register", "login", "logout", "link", "unlink", "interact"], SERVICE, INSTEAD_OF_SERVICE),
    gone(&["monitor", "unmonitor", "open"], SERVICE, INSTEAD_OF_SERVICE),
    gone(&["web"], "does not exist; current versions of PM2 do not have it either", INSTEAD_OF_SERVICE),
    gone(
        &["install-otel", "uninstall-otel"],
        "would install packages by itself",
        "install OpenTelemetry with npm, and load it with `--node-args \"--require …\"`",
    ),
    gone(&["install", "module:install", "uninstall", "module:uninstall"], MODULES, INSTEAD_OF_MODULES),
    gone(
        &["module:update", "module:generate", "package", "publish", "module:publish"],
        MODULES,
        INSTEAD_OF_MODULES,
    ),
    gone(&["autoinstall"], "does not work in PM2 either", "`npm install` installs what an app needs"),
    gone(&["deepUpdate"], "would install packages by itself", "`npm install -g forkful` installs a version"),
    gone(&["pull", "forward", "backward"], "needs version control in the daemon", INSTEAD_OF_PULL),
    gone(
        &["logrotate"],
        "is not needed: log files are set aside by size and age by default",
        "the key `log_rotate` says when; `forkful reloadLogs` serves another program that moves files",
    ),
    gone(
        &["profile:mem"],
        "looks into PM2's own JavaScript",
        "`forkful heap api` takes a heap snapshot of an app's worker",
    ),
    gone(
        &["profile:cpu"],
        "looks into PM2's own JavaScript",
        "`forkful doctor api --profile` takes a CPU profile of an app's worker",
    ),
    gone(
        &["inspect"],
        "does not exist",
        "`forkful start app.js --node-args=--inspect` opens an app's inspector",
    ),
    gone(&["imonit"], "was PM2's older terminal page", "`forkful monit`"),
    gone(&["slist", "sysinfos"], "does not exist", "`forkful report` describes the system"),
    gone(&["gracefulReload"], "is what `reload` always does", "`forkful reload`"),
    gone(
        &["dev"],
        "does not exist",
        "`forkful run app.js --watch` runs an app in this terminal, and reloads it when files change",
    ),
    gone(
        &["migrate"],
        "does not exist",
        "`forkful import pm2` takes over the apps that PM2 runs or has saved",
    ),
    gone(&["create"], "does not exist", "`forkful init` writes a first config file"),
    gone(&["examples"], "does not exist", "`forkful <command> --help` shows examples"),
    gone(&["--trace", "--disable-trace", "--v8", "--event-loop-inspector"], SERVICE, INSTEAD_OF_SERVICE),
    gone(&["--deep-monitoring", "--monitor", "--info-node"], SERVICE, INSTEAD_OF_SERVICE),
    gone(&["--secret", "--public", "--machine-name"], SERVICE, INSTEAD_OF_SERVICE),
    gone(
        &["--write", "-w"],
        "does not exist: apps are saved at every change",
        "`forkful init` writes a first config file",
    ),
    gone(
        &["--container", "--dist", "--fresh", "--image-name", "--dockerdaemon"],
        "would make containers",
        "a Dockerfile whose command is `forkful run app.js`",
    ),
    gone(
        &["--node-version"],
        "would make containers",
        "`--interpreter node@22` runs an app with nvm's Node.js 22",
    ),
    gone(
        &["--formatted"],
        "does not exist: lines are shown as they come, prefixed by the worker's number when there are several workers",
        "`--time` and `--log-type json` shape them",
    ),
    gone(
        &["--auto-exit", "--no-auto-exit"],
        "does not exist: `run` ends when all its apps have ended for good",
        "an app that is restarted, as it is by default, does not end",
    ),
];

/// The entry for a command of PM2.
pub(crate) fn find(word: &str) -> Option<&'static Gone> {
    GONE.iter().find(|gone| gone.words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn words_of_similar_tasks_name_the_command_for_them() {
        for (word, command) in [("dev", "`forkful run app.js --watch`"), ("migrate", "`forkful import pm2`")]
        {
            assert!(find(word).unwrap().instead.starts_with(command), "{word}");
        }
    }
}
