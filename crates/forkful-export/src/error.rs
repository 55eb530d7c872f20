//! Errors of the export, each with what to do about it.

/// What is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The app's port is unknown.
    #[error("app `{app}` has no port, so that nothing can send requests to it")]
    NoPort { app: String },
    /// The app's image is unknown.
    #[error("app `{app}` has no image")]
    NoImage { app: String },
    /// The app's name contains no character that the platform allows.
    #[error("app `{app}` has no letter or digit in its name that a name of {platform} can have")]
    Name { app: String, platform: &'static str },
    /// Two apps have the same name on the platform.
    #[error("apps `{one}` and `{other}` are both called `{name}` in a manifest")]
    SameName { one: String, other: String, name: String },
    /// A value that looks secret, although a manifest is readable by many.
    #[error("`--env {name}` looks like a secret, and a manifest must not contain secrets")]
    Secret { name: String },
    /// The name is not valid for a variable on any platform.
    #[error("`--env {name}` is not a valid name of a variable")]
    Variable { name: String },
    /// Two options give the port, with different numbers.
    #[error("--port {port} and --env PORT={other} give the app two ports")]
    TwoPorts { port: u16, other: String },
    /// The maximum number of pods is below the minimum.
    #[error("--max-replicas {max} is less than --replicas {min}")]
    Replicas { min: u16, max: u16 },
    /// A rate requires a measured capacity.
    #[error("--rate cannot be turned into a number of pods: nothing was measured of app `{app}`")]
    RateUnmeasured { app: String },
    /// A rate requires more pods than allowed.
    #[error("--rate {rate} needs {pods} pods of app `{app}`, more than {max}")]
    RateTooHigh { app: String, rate: u32, pods: u64, max: u16 },
    /// The serializer refused a value.
    #[error("the manifest of app `{app}` cannot be written: {reason}")]
    Unwritable { app: String, reason: String },
}

impl ExportError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoPort { .. } => "set `port` in the configuration, or say `--port 3000`; `--no-port` is for an app that takes no connections, `--only NAME` exports the others".to_owned(),
            Self::NoImage { .. } => "say `--image registry.example.com/app:1.0`; docs/DOCKER.md shows how an image is built".to_owned(),
            Self::Name { .. } => "rename it in the configuration".to_owned(),
            Self::SameName { .. } => "rename one of them, or choose one with `--only NAME`".to_owned(),
            Self::Secret { name } => format!("let the platform set {name} from its own store of secrets"),
            Self::Variable { .. } => "a name has letters, digits and `_`, and does not begin with a digit".to_owned(),
            Self::TwoPorts { .. } => "leave one of them out".to_owned(),
            Self::Replicas { .. } => return None,
            Self::RateUnmeasured { .. } => "run `forkful tune … --save` first".to_owned(),
            Self::RateTooHigh { .. } => "give each pod more workers with `--workers`".to_owned(),
            Self::Unwritable { .. } => return None,
        })
    }
}
