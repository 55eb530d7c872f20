//! Variables of the environment: where a value came from, which may be kept on disk, which are never
//! shown, and the grammar of `.env` files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Where the values of an app's environment came from. What is in neither set was written for the app:
/// in its configuration, or on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvSources {
    /// Variables that came with the caller's environment.
    pub inherited: BTreeSet<String>,
    /// Variables that came from `files`.
    pub from_files: BTreeSet<String>,
    /// The `.env` files, absolute, later ones over earlier ones.
    pub files: Vec<PathBuf>,
    /// The user wants inherited values kept on disk too.
    pub keep_inherited: bool,
    /// What the app can be given instead.
    pub blocks: EnvBlocks,
}

/// The blocks of an app's configuration, one of which can be laid over its environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvBlocks {
    /// What was written for the app whichever block is chosen; empty when there is no block.
    pub common: BTreeMap<String, String>,
    /// `env_<name>`, by name.
    pub named: BTreeMap<String, BTreeMap<String, String>>,
}

impl EnvSources {
    /// Whether a variable's value may be written to the saved state.
    pub fn may_be_kept(&self, name: &str) -> bool {
        if self.from_files.contains(name) {
            return false;
        }
        self.keep_inherited || !self.inherited.contains(name) || is_harmless(name)
    }
}

/// Inherited variables whose values are no secrets, and without which programs do not find anything.
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

/// Whether an inherited variable says nothing that would have to be kept secret.
pub fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// What an app of another user gets of the caller's environment, beside the locale.
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

/// Whether a variable of the caller's environment goes to an app that runs as another user. The caller is root then,
/// and what else is in its environment may be meant for root alone.
pub fn is_for_other_users(name: &str) -> bool {
    FOR_OTHER_USERS.contains(&name) || name.starts_with("LC_")
}

/// Variables of a terminal and of a shell itself.
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

/// Beginnings of such names.
const SHELL_STARTS: &[&str] =
    &["HIST", "LC_", "LESS", "NVM_", "SYSTEMD_", "TERM_", "TMUX", "WAYLAND_", "WSL", "npm_"];

/// Whether a variable belongs to a login, a terminal or a tool: it differs from shell to shell, and no app means it.
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

/// Variables with a secret's name that belong to a login, a desktop or a tool, and not to an app.
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

/// Beginnings of such names.
const LOGIN_STARTS: &[&str] = &[
    "BASH_", "CARGO", "DBUS_", "GNOME_", "GPG_", "KDE_", "KRB5", "LS_", "RUSTUP_", "SSH_", "SUDO_",
    "VSCODE_", "XDG_",
];

/// Beginnings of the names of variables that tools of a developer read, and no app.
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
    "UV_",
    "WT_",
    "YARN_",
    "npm_",
];

/// Endings of names of settings that a machine or a terminal has for every program alike, whatever the name begins with:
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

/// Whether an app is likely to need a variable of a shell, by its name: a secret, a database, a service.
pub fn looks_app_specific(name: &str) -> bool {
    if LOGIN_VARIABLES.contains(&name) || LOGIN_STARTS.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    if is_setting_of_tools(name) {
        return false;
    }
    has_secret_name(name) || name.to_ascii_uppercase().split('_').any(|word| APP_WORDS.contains(&word))
}

/// Words in the name of a variable or option that tell of a secret.
const SECRET_WORDS: &[&str] = &[
    "pass",
    "secret",
    "token",
    "auth",
    "cred",
    "private",
    "apikey",
    "accesskey",
    "dsn",
    "connectionstring",
    "connstr",
    "webhook",
    "session",
    "cookie",
    "salt",
];

/// Endings of names that tell of a secret, when a name is made of words.
const SECRET_ENDINGS: &[&str] = &["key", "pwd", "url", "uri"];

/// Variables of shells and terminals, which differ from call to call and mean nothing to an app.
const OF_SHELL: &[&str] = &["_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM"];

/// Whether a variable is one of a shell or terminal, and means nothing to an app.
pub fn is_of_shell(name: &str) -> bool {
    OF_SHELL.contains(&name)
}

/// What stands for a value that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Whether the name of a variable or option says that its value is a secret.
pub fn has_secret_name(name: &str) -> bool {
    // Every shell has it: the working directory.
    if name == "PWD" {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let plain: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || SECRET_ENDINGS.iter().any(|ending| {
            lower.strip_suffix(ending).is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-', '.']))
        })
}

/// Parts of URLs that whoever knows them may post to.
const WEBHOOKS: &[&str] = &[
    "://hooks.slack.com/",
    "://discord.com/api/webhooks/",
    "://discordapp.com/api/webhooks/",
    ".webhook.office.com/",
    "://hooks.zapier.com/",
    "://api.telegram.org/bot",
];

/// Names of the parts of a connection string, or of a URL's query, that hold a secret.
const SECRET_PARTS: &[&str] = &[
    "password",
    "pwd",
    "accountkey",
    "sharedaccesskey",
    "sharedaccesssignature",
    "sharedsecret",
    "secret",
    "token",
    "accesstoken",
    "apikey",
    "sig",
];

/// Whether a value has parts as `Password=…;` or `?token=…`.
fn has_secret_part(value: &str) -> bool {
    let is_list = value.contains("://") || value.contains(';');
    is_list
        && value.split([';', '?', '&']).filter_map(|part| part.split_once('=')).any(|(name, value)| {
            let name: String =
                name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
            !value.is_empty() && SECRET_PARTS.contains(&name.as_str())
        })
}

/// Whether a value looks like a secret, whatever it is called: a URL with a password, a connection string with one, a
/// webhook, a JSON web token, a private key, or a key as well-known services make them.
pub fn looks_secret(value: &str) -> bool {
    let has_userinfo = value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    let is_web_token = value.starts_with("eyJ") && value.split('.').count() == 3 && value.len() > 30;
    const STARTS: &[&str] = &[
        "AKIA",
        "ASIA",
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "npm_",
        "sk-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "xoxb-",
        "xoxp-",
        "AIza",
        "SG.",
        "-----BEGIN",
    ];
    let is_known_key = STARTS.iter().any(|start| value.starts_with(start) && value.len() > start.len() + 11);
    let is_webhook = WEBHOOKS.iter().any(|webhook| value.contains(webhook));
    has_userinfo || is_web_token || is_known_key || is_webhook || has_secret_part(value)
}

/// A variable's value as it may be shown.
pub fn shown_value<'a>(name: &str, value: &'a str) -> &'a str {
    if !value.is_empty() && (has_secret_name(name) || looks_secret(value)) { REDACTED } else { value }
}

/// Command line arguments as they may be shown: the value of an option with a secret's name, and what
/// looks like a secret, are replaced.
pub fn shown_arguments(arguments: &[String]) -> Vec<String> {
    let mut after_secret = false;
    arguments
        .iter()
        .map(|argument| {
            if std::mem::take(&mut after_secret) && !argument.starts_with('-') {
                return REDACTED.to_owned();
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            let is_option = name.starts_with('-');
            match value {
                Some(value) if shown_value(name, value) == REDACTED => format!("{name}={REDACTED}"),
                None if looks_secret(argument) => REDACTED.to_owned(),
                None => {
                    after_secret = is_option && has_secret_name(name);
                    argument.clone()
                }
                Some(_) => argument.clone(),
            }
        })
        .collect()
}

/// The most bytes of a `.env` file.
pub const ENV_FILE_BYTES_MAX: u64 = 1 << 20;

/// A fault of a `.env` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFileFault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: &'static str,
}

impl fmt::Display for EnvFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

/// Reads a `.env` file as Node.js does: `NAME=value`, `export` before it, `#` comments, values in
/// single, double or back quotes over several lines, `\n` in double quotes. Variables are not expanded.
pub fn parse_env_file(text: &str) -> Result<BTreeMap<String, String>, EnvFileFault> {
    let mut variables = BTreeMap::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let end = rest.find('\n').unwrap_or(rest.len());
        let (first, after) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
        let trimmed = first.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            (rest, line) = (after, line + 1);
            continue;
        }
        let Some(equals) = first.find('=') else {
            return Err(EnvFileFault { line, message: "expected NAME=value" });
        };
        let name = first[..equals].trim();
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        if name.is_empty() || name.contains(char::is_whitespace) || name.contains('\0') {
            return Err(EnvFileFault { line, message: "expected a name without spaces before the `=`" });
        }
        let from_value = &rest[equals + 1..];
        let (value, used) = match quoted_value(from_value) {
            Quoted::Value(value, used) => (value, used),
            Quoted::NotClosed => return Err(EnvFileFault { line, message: "a quote is not closed" }),
            Quoted::No => {
                let plain = &first[equals + 1..];
                (plain.split('#').next().unwrap_or_default().trim().to_owned(), plain.len())
            }
        };
        if value.contains('\0') {
            return Err(EnvFileFault { line, message: "a value cannot hold a NUL character" });
        }
        let consumed = &from_value[..used];
        let tail_end = from_value[used..].find('\n').map_or(from_value.len(), |at| used + at + 1);
        line += consumed.matches('\n').count() + 1;
        rest = &from_value[tail_end..];
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

enum Quoted {
    /// The value, and how many bytes it took with its quotes.
    Value(String, usize),
    NotClosed,
    No,
}

fn quoted_value(text: &str) -> Quoted {
    let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
    let Some(quote) = text[blank..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else {
        return Quoted::No;
    };
    let inner = &text[blank + 1..];
    let Some(end) = inner.find(quote) else { return Quoted::NotClosed };
    let value = if quote == '"' { inner[..end].replace("\\n", "\n") } else { inner[..end].to_owned() };
    Quoted::Value(value, blank + 1 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_and_webhooks_are_secrets_whatever_they_are_called() {
        for (name, value) in [
            ("CONNECTION_STRING", "anything"),
            ("SQLCONNSTR_main", "anything"),
            ("SLACK_WEBHOOK", "x"),
            ("A", "Server=tcp:db;Database=a;User ID=u;Password=p;"),
            ("A", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc=="),
            ("A", "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=v="),
            ("A", "https://hooks.slack.com/services/T0/B0/abc"),
            ("A", "https://discord.com/api/webhooks/1/abc"),
            ("A", "https://example.com/hook?token=abc"),
            ("A", "https://blob.example.com/a?sv=1&sig=abc%3D"),
            ("A", "amqp://u:p@host"),
        ] {
            assert_eq!(shown_value(name, value), REDACTED, "{name}={value}");
        }
        for (name, value) in [
            ("A", "https://example.com/?page=2"),
            ("A", "a=b;c=d"),
            ("A", "password=x"),
            ("A", "http://localhost:3000"),
            ("CONNECTIONS_MAX", "5"),
        ] {
            assert_eq!(shown_value(name, value), value, "{name}={value}");
        }
    }

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
            // Settings of tools and of the network that sound like those of an app.
            "AWS_CA_BUNDLE",
            "AWS_PAGER",
            "AWS_CLI_AUTO_PROMPT",
            "GIT_ASKPASS",
            "PG_COLOR",
            "PIP_INDEX_URL",
            "SMTP_PROXY",
            "s3_proxy",
            "npm_config__authToken",
        ] {
            assert!(!looks_app_specific(name), "{name}");
        }
    }

    #[test]
    fn env_files_are_read_as_node_does() {
        let text = "# a comment\nA=1\nexport B = two words # not this\r\nC=\"line one\nline two\\nthree\" # c\n\
                    D='a # b'\nE=\nF=`it's \"x\"`\n\n  G=last";
        let variables = parse_env_file(text).unwrap();
        let pairs: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("A", "1"),
                ("B", "two words"),
                ("C", "line one\nline two\nthree"),
                ("D", "a # b"),
                ("E", ""),
                ("F", "it's \"x\""),
                ("G", "last")
            ]
        );
        let fault = |text| parse_env_file(text).map_err(|fault| (fault.line, fault.message)).unwrap_err();
        assert_eq!(fault("A=\"1\n2\"\nB\n"), (3, "expected NAME=value"));
        assert_eq!(fault("A=\"1\n2"), (1, "a quote is not closed"));
        assert_eq!(fault("a b=1"), (1, "expected a name without spaces before the `=`"));
    }

    #[test]
    fn secrets_are_known_by_name_and_by_shape() {
        for name in [
            "DB_PASSWORD",
            "apiKey",
            "API_KEY",
            "github-token",
            "DATABASE_URL",
            "AUTH",
            "DB_PWD",
            "--key",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(has_secret_name(name) || name == "apiKey", "{name}");
        }
        assert!(has_secret_name("apiKey"));
        for name in ["PORT", "NODE_ENV", "KEYBOARD", "CURL_OPTIONS", "MONKEY", "PATH", "PWD"] {
            assert!(!has_secret_name(name), "{name}");
        }
        for value in [
            "postgres://u:p@db/x",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk",
            "AKIAIOSFODNN7EXAMPLE",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            assert!(looks_secret(value), "{value}");
        }
        for value in ["http://localhost:3000/a@b:c", "3000", "sk-short", "a.b.c"] {
            assert!(!looks_secret(value), "{value}");
        }
    }

    #[test]
    fn arguments_are_shown_without_secrets() {
        let shown = |words: &[&str]| {
            shown_arguments(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(shown(&["--port", "3000", "--token", "abc", "-x"]), "--port 3000 --token [redacted] -x");
        assert_eq!(
            shown(&["--db=postgres://u:p@h/d", "--api-key=x"]),
            "--db=[redacted] --api-key=[redacted]"
        );
        assert_eq!(shown(&["--token", "-x", "redis://:pw@h"]), "--token -x [redacted]");
    }

    #[test]
    fn inherited_values_are_kept_only_when_harmless_or_asked_for() {
        let mut sources = EnvSources {
            inherited: ["PATH".to_owned(), "AWS_X".to_owned()].into(),
            from_files: ["F".to_owned()].into(),
            ..EnvSources::default()
        };
        let kept = |sources: &EnvSources| ["PATH", "AWS_X", "F", "OWN"].map(|name| sources.may_be_kept(name));
        assert_eq!(kept(&sources), [true, false, false, true]);
        sources.keep_inherited = true;
        assert_eq!(kept(&sources), [true, true, false, true]);
    }
}
