//! Deployments: a command that brings another version of an app says which one, so that the moment is marked on plots.

use serde::{Deserialize, Serialize};

use super::{IncidentKind, Noticed, cut};

/// The version that a deployment brings, in words, such as `3f2a9c1 Faster search`: 1 to 256 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Deployment(String);

impl Deployment {
    /// The variable in which `forkful deploy`, or a deployment of another kind, gives the version to the commands that it runs.
    pub const VARIABLE: &str = "FORKFUL_DEPLOYMENT";
    /// The longest description of a version.
    pub const BYTES_MAX: usize = 256;

    /// From the value of [`Self::VARIABLE`]: its first line, cut if it is too long. `None` if there is nothing in it.
    pub fn of(text: &str) -> Option<Self> {
        let line = text.trim().lines().next()?;
        let version: String = line.chars().filter(|letter| !letter.is_control()).collect();
        let version = version.trim();
        (!version.is_empty()).then(|| Self(cut(version, Self::BYTES_MAX)))
    }

    /// What is to be noted of it where workers of an app are restarted or replaced.
    pub fn noticed(&self) -> Noticed {
        Noticed::Incident {
            kind: IncidentKind::Deployed,
            slot: None,
            reason: self.0.clone(),
            next: "its workers get this version".to_owned(),
        }
    }
}

impl TryFrom<String> for Deployment {
    type Error = String;

    fn try_from(version: String) -> Result<Self, String> {
        if version.is_empty() || version.len() > Self::BYTES_MAX {
            return Err(format!("`deployment` has 1 to {} bytes", Self::BYTES_MAX));
        }
        if version.trim() != version || version.chars().any(char::is_control) {
            return Err(
                "`deployment` is one line without control characters and without spaces around it".to_owned()
            );
        }
        Ok(Self(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_one_line_of_bounded_length() {
        let of = |text: &str| Deployment::of(text).map(|deployment| deployment.0);
        assert_eq!(of(" 3f2a9c1 Faster search \n"), Some("3f2a9c1 Faster search".to_owned()));
        assert_eq!(of("v2\nmore"), Some("v2".to_owned()));
        assert_eq!(of("v\u{1b}[2J3"), Some("v[2J3".to_owned()));
        assert_eq!((of(""), of(" \n"), of("\u{7}\n")), (None, None, None));
        assert_eq!(of(&"€".repeat(100)), Some(format!("{}…", "€".repeat(84))));
        assert!(Deployment::try_from("x".repeat(256)).is_ok());
        for wrong in [String::new(), "x".repeat(257)] {
            assert_eq!(Deployment::try_from(wrong), Err("`deployment` has 1 to 256 bytes".to_owned()));
        }
        for wrong in ["  ", "v2 ", "v\n2", "v\0"] {
            assert!(Deployment::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_deployment_is_no_fault() {
        let Noticed::Incident { kind, slot: None, reason, .. } = Deployment::of("v2").unwrap().noticed()
        else {
            panic!("it concerns an app");
        };
        assert_eq!((kind, kind.is_fault(), reason.as_str()), (IncidentKind::Deployed, false, "v2"));
    }
}
