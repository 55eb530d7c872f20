//! Secrets in variables and arguments: recognised by name or by the format of the value, and never shown.

/// Words in the name of a variable or option that indicate a secret.
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

/// Suffixes of names that indicate a secret, if a name consists of words.
const SECRET_ENDINGS: &[&str] = &["key", "pwd", "url", "uri", "headers"];

/// The replacement for a value that is not shown.
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

/// Whether a value has parts like `Password=…;` or `?token=…`.
fn has_secret_part(value: &str) -> bool {
    let is_list = value.contains("://") || value.contains(';');
    is_list
        && value.split([';', '?', '&']).filter_map(|part| part.split_once('=')).any(|(name, value)| {
            let name: String =
                name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
            !value.is_empty() && SECRET_PARTS.contains(&name.as_str())
        })
}

/// Whether a value looks like a secret, regardless of its name: a URL or a connection string with a password,
/// a webhook, a JSON web token, a private key, or a key in the format of a well-known service.
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

/// A variable's value for output.
pub fn shown_value<'a>(name: &str, value: &'a str) -> &'a str {
    if !value.is_empty() && (has_secret_name(name) || looks_secret(value)) { REDACTED } else { value }
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

#[cfg(test)]
mod tests {
    use super::*;

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
            "OTEL_EXPORTER_OTLP_HEADERS",
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
}
