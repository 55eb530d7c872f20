//! Finds an experiment's app: in the repository's `examples/` with Express installed, or unpacked from this
//! program with a stand-in for Express. Nothing is installed here.

use std::path::{Path, PathBuf};

use crate::LabError;
use crate::scratch::Scratch;

/// Replaces Express if it is not installed; it has only the routing that the apps use.
const STAND_IN: &str = include_str!("express-stand-in.cjs");

/// The apps as they are in `examples/`.
const SOURCES: [(&str, &str); 6] = [
    ("fast-slow", include_str!("../../../../examples/fast-slow/server.js")),
    ("thread-pool", include_str!("../../../../examples/thread-pool/server.js")),
    ("busy-loop", include_str!("../../../../examples/busy-loop/server.js")),
    ("heavy", include_str!("../../../../examples/heavy/server.js")),
    ("fibonacci", include_str!("../../../../examples/fibonacci/server.js")),
    ("sum", include_str!("../../../../examples/sum/server.js")),
];

/// An app to run.
#[derive(Debug)]
pub struct AppLocation {
    pub script: PathBuf,
    /// The stand-in is used. `Some`: the command that would install Express.
    pub stand_in: Option<String>,
    /// Keeps the unpacked app on disk as long as it is needed.
    _unpacked: Option<Scratch>,
}

/// Looks for an app in `examples`, in `./examples`, and in the repository that contains this program;
/// otherwise unpacks it.
pub fn locate(app: &str, examples: Option<&Path>, program: &Path) -> Result<AppLocation, LabError> {
    let named = examples.map(Path::to_owned);
    if let Some(directory) = &named
        && !directory.join(app).join("server.js").is_file()
    {
        return Err(LabError::Plan {
            reason: format!("{} holds no {app}/server.js", directory.display()),
            hint: "name the directory `examples` of Forkful's repository, or leave --examples out",
        });
    }
    let beside = program.ancestors().map(|ancestor| ancestor.join("examples"));
    let candidates = named.into_iter().chain([PathBuf::from("examples")]).chain(beside);
    let found = candidates.into_iter().find(|directory| directory.join(app).join("server.js").is_file());
    let Some(directory) = found else {
        return unpack(
            app,
            "npm ci --prefix examples --workspaces=false  # in Forkful's repository".to_owned(),
        );
    };
    let folder = directory.join(app);
    let has_express =
        folder.ancestors().any(|ancestor| ancestor.join("node_modules/express/package.json").is_file());
    if !has_express {
        return unpack(app, format!("npm ci --prefix {} --workspaces=false", directory.display()));
    }
    let script = std::path::absolute(folder.join("server.js"))
        .map_err(LabError::system("cannot tell the directory"))?;
    Ok(AppLocation { script, stand_in: None, _unpacked: None })
}

fn unpack(app: &str, install: String) -> Result<AppLocation, LabError> {
    let (_, source) =
        SOURCES.iter().find(|(name, _)| *name == app).expect("every experiment's app is among the sources");
    let failed = || LabError::system("cannot unpack the app");
    let directory = Scratch::new("forkful-app-").map_err(failed())?;
    let express = directory.path().join("node_modules/express");
    fs_err::create_dir_all(&express).map_err(failed())?;
    fs_err::write(express.join("index.js"), STAND_IN).map_err(failed())?;
    let script = directory.path().join("server.js");
    fs_err::write(&script, source).map_err(failed())?;
    Ok(AppLocation { script, stand_in: Some(install), _unpacked: Some(directory) })
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    #[test]
    fn every_app_can_be_unpacked() {
        for description in &catalogue::ALL {
            let place = unpack(description.app, String::new()).unwrap();
            assert!(place.script.is_file());
            let express = place.script.with_file_name("node_modules/express/index.js");
            assert!(express.is_file(), "the stand-in is found as Express would be");
        }
    }

    #[test]
    fn an_app_is_used_where_it_is_when_express_is_installed() {
        let examples = tempfile::tempdir().unwrap();
        let folder = examples.path().join("sum");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("server.js"), "").unwrap();
        let without = locate("sum", Some(examples.path()), Path::new("/nowhere/forkful")).unwrap();
        assert_eq!(
            without.stand_in,
            Some(format!("npm ci --prefix {} --workspaces=false", examples.path().display()))
        );
        fs_err::create_dir_all(examples.path().join("node_modules/express")).unwrap();
        fs_err::write(examples.path().join("node_modules/express/package.json"), "{}").unwrap();
        let with = locate("sum", Some(examples.path()), Path::new("/nowhere/forkful")).unwrap();
        assert_eq!((with.stand_in, with.script), (None, folder.join("server.js")));
    }

    #[test]
    fn a_directory_without_the_app_is_refused() {
        let error = locate("sum", Some(Path::new("/nowhere")), Path::new("/nowhere/forkful")).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere holds no sum/server.js");
    }
}
