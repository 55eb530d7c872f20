//! Checks whether the dependencies between apps allow a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::order::{Circle, in_groups};
use crate::pages::{Hint, Page};

/// The name of an app, and the names of the apps that it depends on; see [`super::order::needs_of`].
pub type Needs = (String, Vec<String>);

/// Why the dependencies do not allow a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedsFault {
    /// It depends on an app that neither exists nor is part of the request.
    Missing {
        app: String,
        needed: String,
    },
    /// It stays, but depends on an app that would be deleted.
    Deleted {
        app: String,
        needed: String,
    },
    Circle(Circle),
}

impl fmt::Display for NeedsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { app, needed } => {
                write!(f, "`{app}` depends on `{needed}`, and there is no such app")
            }
            Self::Deleted { app, needed } => {
                write!(f, "`{app}` depends on `{needed}`, which would be deleted")
            }
            Self::Circle(circle) => write!(f, "{circle}"),
        }
    }
}

impl std::error::Error for NeedsFault {}

impl NeedsFault {
    /// What to do about it.
    pub fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::Missing { needed, .. } => format!("start `{needed}` first, or in the same file"),
            Self::Deleted { app, needed } => {
                format!("delete `{app}` too, or take `{needed}` out of its `depends_on` first")
            }
            Self::Circle(_) => return None,
        };
        Some(Page::Start.hint(text))
    }
}

/// Checks the apps that a request starts or changes (`wanted`), and those that it deletes. An existing app
/// with a missing dependency is an error only if it is `wanted`.
pub fn check(
    existing: impl IntoIterator<Item = Needs>,
    wanted: impl IntoIterator<Item = Needs>,
    deleted: &BTreeSet<String>,
) -> Result<(), NeedsFault> {
    let wanted: BTreeMap<String, Vec<String>> = wanted.into_iter().collect();
    let mut needs: BTreeMap<String, Vec<String>> =
        existing.into_iter().filter(|(name, _)| !deleted.contains(name)).collect();
    needs.extend(wanted.clone());
    let pairs = needs.iter().flat_map(|(app, all)| all.iter().map(move |needed| (app, needed)));
    for (app, needed) in pairs.filter(|(_, needed)| !needs.contains_key(*needed)) {
        let (is_deleted, is_wanted) = (deleted.contains(needed), wanted.contains_key(app));
        let (app, needed) = (app.clone(), needed.clone());
        if is_deleted {
            return Err(NeedsFault::Deleted { app, needed });
        }
        if is_wanted {
            return Err(NeedsFault::Missing { app, needed });
        }
    }
    in_groups(&needs).map(|_| ()).map_err(NeedsFault::Circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    type List<'a> = &'a [(&'a str, &'a [&'a str])];

    /// The request's error and hint, if any.
    fn told(existing: List<'_>, wanted: List<'_>, deleted: &[&str]) -> Option<String> {
        let needs = |list: List<'_>| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            list.iter().map(|(name, all)| ((*name).to_owned(), owned(all))).collect::<Vec<Needs>>()
        };
        let deleted = deleted.iter().map(|name| (*name).to_owned()).collect();
        let fault = check(needs(existing), needs(wanted), &deleted).err()?;
        Some(format!("{fault}; {}", fault.hint().map(|hint| hint.text).unwrap_or_default()))
    }

    #[test]
    fn what_is_needed_exists_or_comes_with_the_request() {
        assert_eq!(told(&[("db", &[])], &[("web", &["db", "api"]), ("api", &[])], &[]), None);
        assert_eq!(
            told(&[("web", &[])], &[("web", &["db"])], &[]).unwrap(),
            "`web` depends on `db`, and there is no such app; start `db` first, or in the same file"
        );
    }

    #[test]
    fn an_app_that_others_need_is_not_deleted_unless_they_are_or_need_it_no_more() {
        let existing: List<'_> = &[("db", &[]), ("web", &["db"])];
        let fault = "`web` depends on `db`, which would be deleted; \
            delete `web` too, or take `db` out of its `depends_on` first";
        assert_eq!(told(existing, &[("other", &[])], &["db"]).unwrap(), fault, "it is not in the request");
        assert_eq!(told(existing, &[("web", &["db"])], &["db"]).unwrap(), fault);
        assert_eq!(told(existing, &[("web", &[])], &["db"]), None);
        assert_eq!(told(existing, &[("other", &[])], &["db", "web"]), None);
        assert_eq!(told(existing, &[("db", &[])], &["web"]), None);
    }

    #[test]
    fn what_an_app_lacks_already_concerns_its_own_requests_alone() {
        let existing: List<'_> = &[("web", &["db"]), ("api", &[])];
        assert_eq!(told(existing, &[("api", &[])], &[]), None);
        assert!(told(existing, &[("web", &["db"])], &[]).is_some());
    }

    #[test]
    fn apps_do_not_wait_for_each_other() {
        let fault = told(&[("a", &["b"])], &[("b", &["a"])], &[]).unwrap();
        assert_eq!(fault, "these apps wait for each other: a → b → a; ");
    }
}
