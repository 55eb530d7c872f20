//! Secrets in variables and arguments: recognised by name or by the format of the value, and never shown.

/// What a word of the name of a variable or option contains if the value is a secret.
const SECRET_WORDS: &[&str] =
    &["pass", "secret", "token", "auth", "cred", "private", "webhook", "session", "cookie"];

/// The same for what is part of many other words: a word ends with it.
const SECRET_WORD_ENDINGS: &[&str] = &["dsn", "salt"];

/// Words that contain one of those, and have another meaning.
const HARMLESS_WORDS: &[&str] = &[
    "author",
    "authors",
    "basalt",
    "bypass",
    "compass",
    "encompass",
    "passed",
    "passenger",
    "passengers",
    "passenv",
    "passes",
    "passing",
    "passive",
    "passthrough",
    "passthru",
    "sacred",
    "tokenize",
    "tokenizer",
    "tokenizers",
    "trespass",
];

/// The same of several words.
const SECRET_PHRASES: &[&str] = &["apikey", "accesskey", "connectionstring", "connstr"];

/// Last words of names that indicate a secret.
const SECRET_ENDINGS: &[&str] = &["key", "pwd", "url", "uri", "headers"];

/// The replacement for a value that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Whether the name of a variable or option says that its value is a secret.
pub fn has_secret_name(name: &str) -> bool {
    // Every shell has it: the working directory.
    if name == "PWD" {
        return false;
    }
    let words = words(name);
    let is_secret = |word: &String| {
        let has = SECRET_WORDS.iter().any(|secret| word.contains(secret))
            || SECRET_WORD_ENDINGS.iter().any(|ending| word.ends_with(ending));
        has && !HARMLESS_WORDS.contains(&word.as_str())
    };
    let joined = words.concat();
    words.iter().any(is_secret)
        || SECRET_PHRASES.iter().any(|phrase| joined.contains(phrase))
        || words.last().is_some_and(|last| SECRET_ENDINGS.contains(&last.as_str()))
}

/// The words of a name, in lower case and without numbers behind them: `api` and `key` of `API_KEY_2`, `api-key` and `apiKey2`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = name.chars().peekable();
    let mut before = None;
    while let Some(letter) = letters.next() {
        let begins = letter.is_uppercase()
            && before.is_some_and(|before: char| {
                let next_is_lower = letters.peek().is_some_and(|next| next.is_lowercase());
                before.is_lowercase() || before.is_uppercase() && next_is_lower
            });
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
        before = Some(letter);
    }
    let letters = |word: String| word.trim_end_matches(|last: char| last.is_ascii_digit()).to_owned();
    words.into_iter().map(letters).filter(|word| !word.is_empty()).collect()
}

/// Parts of webhook URLs: anyone who knows such a URL may post to it.
const WEBHOOKS: &[&str] = &[
    "://hooks.slack.com/",
    "://discord.com/api/webhooks/",
    "://discordapp.com/api/webhooks/",
    ".webhook.office.com/",
    "://hooks.zapier.com/",
    "://api.telegram.org/bot",
];

/// Names of secret parts of a connection string, or of a URL's query.
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

fn is_secret_part(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_PARTS.contains(&name.as_str())
}

/// Whether a value has parts like `Password=…;` or `?token=…`.
fn has_secret_part(value: &str) -> bool {
    let is_list = value.contains("://") || value.contains(';');
    is_list
        && value
            .split([';', '?', '&'])
            .filter_map(|part| part.split_once('='))
            .any(|(name, value)| !value.is_empty() && is_secret_part(name))
}

/// Whether a value looks like a secret, regardless of its name: a URL or a connection string with a password,
/// a webhook, a JSON web token, a private key, or a key in the format of a well-known service.
pub fn looks_secret(value: &str) -> bool {
    let has_userinfo = value.match_indices("://").any(|(at, separator)| {
        let rest = &value[at + separator.len()..];
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

/// A variable's value for output.
pub fn shown_value<'a>(name: &str, value: &'a str) -> &'a str {
    if !value.is_empty() && (has_secret_name(name) || looks_secret(value)) { REDACTED } else { value }
}

/// A path of an HTTP request for output: the secret values of its query are replaced.
pub fn shown_path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return shown_value("", path).to_owned() };
    let shown = |part: &str| match part.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret_part(name) => format!("{name}={REDACTED}"),
        Some((name, value)) => format!("{name}={}", shown_value(name, value)),
        None => shown_value("", part).to_owned(),
    };
    let parts: Vec<String> = query.split('&').map(shown).collect();
    format!("{}?{}", shown_value("", path), parts.join("&"))
}

/// The number of names before a value: `--define=env=API_KEY=…` has three. A value behind more names is not shown.
const NAMES_MAX: usize = 4;

/// The value of an option for output. It may have a name of its own, as in `--title=token=…`.
fn shown_option_value(option: &str, value: &str) -> String {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
    };
    let mut shown = String::new();
    let (mut name, mut rest) = (option, value);
    for _ in 0..NAMES_MAX {
        rest = shown_value(name, rest);
        match rest.split_once('=') {
            Some((inner, after)) if is_name(inner) => {
                shown = shown + inner + "=";
                (name, rest) = (inner, after);
            }
            _ => return shown + rest,
        }
    }
    shown + REDACTED
}

/// Command-line arguments for output: the value of an option with a secret's name, and values that look like
/// a secret, are replaced.
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
                Some(value) => {
                    let shown = format!("{name}={}", shown_option_value(name, value));
                    // The `=` may stand within a value without an option, such as a URL with a query.
                    if looks_secret(&shown) { REDACTED.to_owned() } else { shown }
                }
                None if looks_secret(argument) => REDACTED.to_owned(),
                None => {
                    after_secret = is_option && has_secret_name(name);
                    argument.clone()
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_others_by_their_words() {
        for name in SECRET_NAMES {
            assert!(has_secret_name(name), "{name}");
        }
        for name in OTHER_NAMES {
            assert!(!has_secret_name(name), "{name}");
        }
    }

    const SECRET_NAMES: &[&str] = &[
        "--key",
        "--pass",
        "API_KEY",
        "API_KEY2",
        "APIKey",
        "AUTH",
        "AUTHORIZATION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "BYPASS_TOKEN",
        "DATABASE_URL",
        "DB_PASS",
        "DB_PASSWORD",
        "DB_PWD",
        "MYSQLPASSWORD",
        "OAuthSecrets",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "PASSPHRASE",
        "PASS_WORD",
        "PGPASSWORD",
        "PGPASSWORD1",
        "SALT",
        "SENTRY_DSN",
        "SENTRYDSN",
        "accessKey",
        "apiKey",
        "apikey",
        "authToken",
        "connectionString",
        "databaseUrl",
        "dbPass",
        "github-token",
        "npm_config__authToken",
        "passwordSalt",
        "private.key",
        "user%5Bpassword%5D",
        "user[password]",
    ];

    const OTHER_NAMES: &[&str] = &[
        "",
        "--",
        "BYPASS",
        "COMPASS_X",
        "CURL_OPTIONS",
        "GIT_AUTHOR_NAME",
        "KEYBOARD",
        "MAX_THREADS_NUM",
        "MONKEY",
        "NODE_ENV",
        "NUM_PASSES",
        "PASSENGER_APP_ENV",
        "PATH",
        "PORT",
        "PROPOSAL_TYPE",
        "PWD",
        "TOKENIZERS_PARALLELISM",
        "TOX_TESTENV_PASSENV",
        "WORKERS_ALT",
        "bypassCache",
        "commitAuthor",
        "threadsNumber",
        "urlCount",
    ];

    #[test]
    fn secrets_are_known_by_their_shape() {
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
    fn a_path_is_shown_without_the_secrets_of_its_query() {
        for (path, shown) in [
            ("/healthz", "/healthz"),
            ("/h?verbose=1&token=SEK", "/h?verbose=1&token=[redacted]"),
            ("/h?api_key=SEK&sig=SEK&a", "/h?api_key=[redacted]&sig=[redacted]&a"),
            ("/h?ghp_0123456789abcdefSEK", "/h?[redacted]"),
            ("/h;token=SEK", "[redacted]"),
        ] {
            assert_eq!(shown_path(path), shown);
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
        assert_eq!(
            shown(&["--title=token=hunter2", "--define=a=API_KEY=x=y", "--title", "password=x", "token="]),
            "--title=token=[redacted] --define=a=API_KEY=[redacted] --title password=[redacted] token="
        );
        assert_eq!(shown(&["--x=a=b=c=d=e=f"]), "--x=a=b=c=d=[redacted]");
        assert_eq!(shown(&["--x=http://a/,b=postgres://u:p@h"]), "--x=[redacted]");
        for secret in [
            "postgres://u:SEK@db/x?sslmode=require",
            "-dpostgres://u:SEK@db/x?sslmode=require",
            "https://example.com/?page=2&token=SEK",
            "AccountName=a;AccountKey=SEK==",
            "ghp_0123456789abcdefSEK=1",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcSEK=",
        ] {
            assert!(!shown(&[secret]).contains("SEK"), "{secret}: {}", shown(&[secret]));
        }
        assert_eq!(shown(&["https://example.com/?page=2"]), "https://example.com/?page=2");
        let harmless =
            ["--import=data:text/javascript,a='b'", "--url-of=http://auth/?a=b", "--a=b=c", "--=", "="];
        assert_eq!(shown(&harmless), harmless.join(" "));
    }
}
