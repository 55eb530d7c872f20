//! Choices that users write by name. Each has a single list, used by every configuration format, the command
//! line, messages, the schema and the API.

/// A choice with a few values, each with the name that users write.
pub trait Named: Copy + PartialEq + 'static {
    /// All values, each with its name and its meaning.
    const ALL: &'static [(Self, &'static str, &'static str)];
    /// The names only, in the same order.
    const NAMES: &'static [&'static str];

    /// The name of a value.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, ..)| *one == self).map_or("", |(_, name, _)| name)
    }

    /// The value with a name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own, _)| *own == name).map(|(one, ..)| *one)
    }
}

/// Defines an enum whose variants have names, also in JSON.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident {
        $(#[doc = $meaning:literal] $(#[$of_variant:meta])* $variant:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $type { $(#[doc = $meaning] $(#[$of_variant])* #[serde(rename = $name)] $variant),+ }

        impl $crate::spec::Named for $type {
            const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$variant, $name, $meaning)),+];
            const NAMES: &'static [&'static str] = &[$($name),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::spec::Named::name(*self))
            }
        }
    };
}
