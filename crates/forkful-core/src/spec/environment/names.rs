//! Judges the name of a variable: whether it belongs to a shell, a login, a tool or an app, and who may get
//! its value.

use super::secrets::has_secret_name;

/// Inherited variables whose values are not secret, and that programs need.
const HARMLESS: &[&str] = &[
    "FORKFUL_HOME",
    "HOME",
    "HOST",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_ENV",
    "NVM_BIN",
    "NVM_DIR",
    "PATH",
    "PORT",
    "SHELL",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "UV_THREADPOOL_SIZE",
];

/// Whether an inherited variable has nothing secret in it.
pub fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// Variables of the caller's environment that an app of another user gets, in addition to the locale.
const FOR_OTHER_USERS: &[&str] = &[
    "COLORTERM",
    "FORCE_COLOR",
    "FORKFUL_HOME",
    "HOST",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "NODE_ENV",
    "NO_COLOR",
    "PATH",
    "PORT",
    "TERM",
    "TZ",
    "UV_THREADPOOL_SIZE",
];

/// Whether a variable of the caller's environment goes to an app that runs as another user. The caller is
/// root then, and the other variables in its environment may be meant only for root.
pub fn is_for_other_users(name: &str) -> bool {
    FOR_OTHER_USERS.contains(&name) || name.starts_with("LC_")
}

/// Variables of a terminal or of a shell.
const SHELL_VARIABLES: &[&str] = &[
    "_",
    "COLORTERM",
    "COLUMNS",
    "DISPLAY",
    "EDITOR",
    "FORKFUL_HOME",
    "INIT_CWD",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINES",
    "MANPATH",
    "PAGER",
    "PS1",
    "SHELL",
    "SHLVL",
    "STY",
    "TERM",
    "VISUAL",
];

/// Prefixes of such names.
const SHELL_STARTS: &[&str] =
    &["HIST", "LC_", "LESS", "NVM_", "SYSTEMD_", "TERM_", "TMUX", "WAYLAND_", "WSL", "npm_"];

/// Whether a variable belongs to a login, a terminal or a tool: it differs from shell to shell, and apps do
/// not use it.
pub fn belongs_to_login(name: &str) -> bool {
    LOGIN_VARIABLES.contains(&name)
        || SHELL_VARIABLES.contains(&name)
        || LOGIN_STARTS.iter().chain(SHELL_STARTS).any(|start| name.starts_with(start))
}

/// Words in the names of variables that apps read: their databases, brokers and services.
const APP_WORDS: &[&str] = &[
    "AMQP",
    "AWS",
    "AZURE",
    "DATABASE",
    "DB",
    "ELASTIC",
    "KAFKA",
    "MAIL",
    "MONGO",
    "MONGODB",
    "MYSQL",
    "PG",
    "PGDATABASE",
    "PGHOST",
    "PGUSER",
    "POSTGRES",
    "RABBITMQ",
    "REDIS",
    "S3",
    "SENTRY",
    "SMTP",
    "STRIPE",
];

/// Variables with a secret's name that belong to a login, a desktop or a tool, not to an app.
const LOGIN_VARIABLES: &[&str] = &[
    "DESKTOP_SESSION",
    "GDMSESSION",
    "ICEAUTHORITY",
    "MAIL",
    "MAILCHECK",
    "MAILPATH",
    "PWD",
    "OLDPWD",
    "SESSION_MANAGER",
    "TERM_SESSION_ID",
    "WINDOWID",
    "XAUTHORITY",
];

/// Prefixes of such names.
const LOGIN_STARTS: &[&str] = &[
    "BASH_", "CARGO", "DBUS_", "GNOME_", "GPG_", "KDE_", "KRB5", "LS_", "RUSTUP_", "SSH_", "SUDO_",
    "VSCODE_", "XDG_",
];

/// Prefixes of variables for developer tools, which apps do not read.
const TOOL_STARTS: &[&str] = &[
    "AWS_CLI_",
    "BUNDLE_",
    "CONDA_",
    "DOCKER_",
    "GIT_",
    "HOMEBREW_",
    "ITERM_",
    "KONSOLE_",
    "NPM_CONFIG_",
    "PIP_",
    "POETRY_",
    "PYENV_",
    "TERRAFORM_",
    "TF_",
    "TOX_",
    "UV_",
    "WT_",
    "YARN_",
    "npm_",
];

/// Suffixes of settings that a machine or a terminal has for all programs, regardless of the prefix:
/// `AWS_CA_BUNDLE`, `PSQL_PAGER`, `SMTP_PROXY`.
const TOOL_ENDINGS: &[&str] =
    &["ASKPASS", "CA_BUNDLE", "COLOR", "COLORS", "EDITOR", "HISTORY", "PAGER", "PROMPT", "PROXY"];

/// Whether a variable is a setting of a tool, a terminal or the machine's network.
fn is_setting_of_tools(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    TOOL_STARTS.iter().any(|start| name.starts_with(start))
        || TOOL_ENDINGS.iter().any(|ending| {
            upper.strip_suffix(ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        })
}

/// Whether an app probably needs a shell variable, by its name: a secret, a database, a service.
pub fn looks_app_specific(name: &str) -> bool {
    if LOGIN_VARIABLES.contains(&name) || LOGIN_STARTS.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    if is_setting_of_tools(name) {
        return false;
    }
    has_secret_name(name) || name.to_ascii_uppercase().split('_').any(|word| APP_WORDS.contains(&word))
}

/// Variables of shells and terminals, which differ from call to call and have no meaning for an app.
const OF_SHELL: &[&str] = &["_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM"];

/// Whether a variable belongs to a shell or terminal, and has no meaning for an app.
pub fn is_of_shell(name: &str) -> bool {
    OF_SHELL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_of_another_user_gets_the_locale_and_the_path_and_no_more() {
        for name in ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "NODE_ENV", "PORT"] {
            assert!(is_for_other_users(name), "{name}");
        }
        for name in
            ["DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "HOME", "SSH_AUTH_SOCK", "NODE_OPTIONS", "LD_PRELOAD"]
        {
            assert!(!is_for_other_users(name), "{name}");
        }
    }

    #[test]
    fn what_an_app_is_likely_to_need_is_told_from_what_a_login_has() {
        for name in [
            "DATABASE_URL",
            "REDIS_HOST",
            "API_KEY",
            "SMTP_PORT",
            "DB",
            "STRIPE_SECRET",
            "db_name",
            "AWS_REGION",
            "AWS_PROFILE",
        ] {
            assert!(looks_app_specific(name), "{name}");
        }
        for name in [
            "PATH",
            "SSH_AUTH_SOCK",
            "XDG_SESSION_ID",
            "MAIL",
            "PWD",
            "EDITOR",
            "LS_COLORS",
            "DBUS_SESSION_BUS_ADDRESS",
            // Settings of tools and of the network with names like those of an app.
            "AWS_CA_BUNDLE",
            "AWS_PAGER",
            "AWS_CLI_AUTO_PROMPT",
            "GIT_ASKPASS",
            "PG_COLOR",
            "PIP_INDEX_URL",
            "SMTP_PROXY",
            "TOX_TESTENV_PASSENV",
            "s3_proxy",
            "npm_config__authToken",
        ] {
            assert!(!looks_app_specific(name), "{name}");
        }
    }
}
