//! The settings of the file server, read from PM2's variables `PM2_SERVE_*`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use thiserror::Error;

use crate::login::Login;

/// The default port, as in PM2.
const PORT_DEFAULT: u16 = 8080;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directory; relative to the working directory.
    pub path: PathBuf,
    /// The port; 0 for a port chosen by the system.
    pub port: u16,
    /// The address to listen on; loopback by default.
    pub host: IpAddr,
    /// Paths without a file get the home page (single-page app).
    pub spa: bool,
    /// Directories without `index.html` get a listing.
    pub listing: bool,
    /// Pages of other origins may read the files.
    pub cors: bool,
    /// The page for `/` and for single-page apps: a file of the site, after a slash.
    pub homepage: String,
    /// The required login; `None`: open to everybody.
    pub login: Option<Login>,
    /// Other workers listen on the same port.
    pub shared: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("."),
            port: PORT_DEFAULT,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            spa: false,
            listing: false,
            cors: false,
            homepage: "/index.html".to_owned(),
            login: None,
            shared: false,
        }
    }
}

/// Why a variable cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// Its value is invalid.
    #[error("{name} is {value:?}, but must be {expected}")]
    Value {
        name: &'static str,
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// Authentication is enabled, but the name or the password is missing.
    #[error("{name} is not set, but basic authentication needs a name and a password")]
    HalfLogin {
        /// The variable that is missing or empty.
        name: &'static str,
    },
}

impl Settings {
    /// Reads the variables; the defaults are those of [`Settings::default`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let default = Self::default();
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let homepage = given("PM2_SERVE_HOMEPAGE").unwrap_or(default.homepage);
        Ok(Self {
            path: given("PM2_SERVE_PATH").map_or(default.path, PathBuf::from),
            port: parsed("PM2_SERVE_PORT", "a port's number", &given)?.unwrap_or(default.port),
            host: match given("PM2_SERVE_HOST") {
                Some(name) if name == "localhost" => default.host,
                _ => parsed("PM2_SERVE_HOST", "an address such as 127.0.0.1, 0.0.0.0 or ::", &given)?
                    .unwrap_or(default.host),
            },
            spa: flag("PM2_SERVE_SPA", &given)?,
            listing: flag("PM2_SERVE_FTP", &given)?,
            cors: flag("PM2_SERVE_CORS", &given)?,
            homepage: if homepage.starts_with('/') { homepage } else { format!("/{homepage}") },
            login: login(&given)?,
            // With several workers in fork mode; the supervisor passes their number.
            shared: given("instances")
                .and_then(|count| count.parse().ok())
                .is_some_and(|count: u32| count > 1),
        })
    }
}

fn parsed<T: std::str::FromStr>(
    name: &'static str,
    expected: &'static str,
    given: &impl Fn(&str) -> Option<String>,
) -> Result<Option<T>, SettingsError> {
    let Some(value) = given(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(_) => Err(SettingsError::Value { name, value, expected }),
    }
}

fn flag(name: &'static str, given: &impl Fn(&str) -> Option<String>) -> Result<bool, SettingsError> {
    // The texts that JavaScript makes of missing values count as missing.
    match given(name).as_deref() {
        None | Some("false" | "undefined" | "null" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(value) => Err(SettingsError::Value { name, value: value.to_owned(), expected: "true or false" }),
    }
}

/// Both the name and the password, or neither. PM2 also requires `PM2_SERVE_BASIC_AUTH`; a site whose owner
/// set a password but not that variable should not be open.
fn login(given: &impl Fn(&str) -> Option<String>) -> Result<Option<Login>, SettingsError> {
    const NAME: &str = "PM2_SERVE_BASIC_AUTH_USERNAME";
    const PASSWORD: &str = "PM2_SERVE_BASIC_AUTH_PASSWORD";
    let wanted = flag("PM2_SERVE_BASIC_AUTH", given)?;
    match (given(NAME), given(PASSWORD)) {
        (Some(name), Some(password)) => Ok(Some(Login::new(&name, &password))),
        (None, None) if !wanted => Ok(None),
        (None, _) => Err(SettingsError::HalfLogin { name: NAME }),
        (Some(_), None) => Err(SettingsError::HalfLogin { name: PASSWORD }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let find =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::from_variables(find).map_err(|error| error.to_string())
    }

    #[test]
    fn pm2s_variables_are_read() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        let all = read(&[
            ("PM2_SERVE_PATH", "/srv/site"),
            ("PM2_SERVE_PORT", "0"),
            ("PM2_SERVE_HOST", "::"),
            ("PM2_SERVE_SPA", "true"),
            ("PM2_SERVE_FTP", "false"),
            ("PM2_SERVE_HOMEPAGE", "start.html"),
            ("PM2_SERVE_BASIC_AUTH", "true"),
            ("PM2_SERVE_BASIC_AUTH_USERNAME", "ann"),
            ("PM2_SERVE_BASIC_AUTH_PASSWORD", "s:cret"),
            ("instances", "2"),
        ]);
        let expected = Settings {
            path: "/srv/site".into(),
            port: 0,
            host: "::".parse().unwrap(),
            spa: true,
            listing: false,
            cors: false,
            homepage: "/start.html".to_owned(),
            login: Some(Login::new("ann", "s:cret")),
            shared: true,
        };
        assert_eq!(all.unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (pairs, told) in [
            (&[("PM2_SERVE_PORT", "http")][..], r#"PM2_SERVE_PORT is "http", but must be a port's number"#),
            (&[("PM2_SERVE_PORT", "70000")], r#"PM2_SERVE_PORT is "70000", but must be a port's number"#),
            (
                &[("PM2_SERVE_HOST", "example.org")],
                r#"PM2_SERVE_HOST is "example.org", but must be an address such as 127.0.0.1, 0.0.0.0 or ::"#,
            ),
            (&[("PM2_SERVE_SPA", "yes")], r#"PM2_SERVE_SPA is "yes", but must be true or false"#),
            (
                &[("PM2_SERVE_BASIC_AUTH", "true")],
                "PM2_SERVE_BASIC_AUTH_USERNAME is not set, but basic authentication needs a name and a password",
            ),
            (
                &[("PM2_SERVE_BASIC_AUTH_USERNAME", "ann"), ("PM2_SERVE_BASIC_AUTH_PASSWORD", "")],
                "PM2_SERVE_BASIC_AUTH_PASSWORD is not set, but basic authentication needs a name and a password",
            ),
        ] {
            assert_eq!(read(pairs).unwrap_err(), told);
        }
    }

    #[test]
    fn a_password_without_the_flag_is_asked_for_all_the_same() {
        let settings =
            read(&[("PM2_SERVE_BASIC_AUTH_USERNAME", "ann"), ("PM2_SERVE_BASIC_AUTH_PASSWORD", "x")]);
        assert_eq!(settings.unwrap().login, Some(Login::new("ann", "x")));
    }
}
