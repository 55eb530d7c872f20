//! Basic authentication (RFC 7617).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use subtle::ConstantTimeEq as _;

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// As sent by the client, before base64.
    credentials: String,
}

/// Hides the secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    pub fn new(name: &str, password: &str) -> Self {
        Self { credentials: format!("{name}:{password}") }
    }

    /// Whether an `Authorization` header grants access. The time reveals at most the length of the
    /// credentials.
    pub(crate) fn admits(&self, header: Option<&HeaderValue>) -> bool {
        let decoded = header.and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(token.trim()).ok())?
        });
        decoded.is_some_and(|given| given.ct_eq(self.credentials.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_name_and_password_are_let_in() {
        let login = Login::new("ann", "pa:ss wörd");
        let header = |scheme: &str, text: &str| {
            HeaderValue::from_str(&format!("{scheme} {}", STANDARD.encode(text))).unwrap()
        };
        assert!(login.admits(Some(&header("Basic", "ann:pa:ss wörd"))));
        assert!(login.admits(Some(&header("basic", "ann:pa:ss wörd"))));
        for (scheme, text) in [
            ("Basic", "ann:pa:ss word"),
            ("Basic", "ann:"),
            ("Basic", "ann"),
            ("Basic", ""),
            ("Basic", "bob:pa:ss wörd"),
            ("Basic", "ann:pa:ss wörd\0"),
            ("Bearer", "ann:pa:ss wörd"),
        ] {
            assert!(!login.admits(Some(&header(scheme, text))), "{scheme} {text}");
        }
        assert!(!login.admits(None));
        assert!(!login.admits(Some(&HeaderValue::from_static("Basic"))));
        assert!(!login.admits(Some(&HeaderValue::from_static("Basic ???"))));
        assert_eq!(format!("{login:?}"), "Login { .. }");
    }
}
