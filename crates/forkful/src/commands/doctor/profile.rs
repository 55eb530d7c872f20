//! `--profile`: a CPU profile of one worker while the doctor watches, as a file and as a page, and the functions that its time went to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::client::Client;
use forkful_api::profile::ProfileRequest;
use forkful_api::types::{ProfileFiles, ProfileView};
use forkful_core::date_format::utc;
use forkful_core::profile::{BYTES_MAX, CpuProfile, Functions, LENGTH_MAX};

use crate::commands::profile_file::{ProfileFile, name_of};
use crate::commands::profiled::{Load, worker_of};
use crate::commands::targets::{client_for, described};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::flame::{Subject, page};

/// Where the files of a profile go, and how long it takes.
pub(super) struct Wish<'a> {
    pub(super) folder: &'a Path,
    pub(super) length: Duration,
}

/// Takes a profile of the worker that a target names, else of the busiest one, and writes its files.
pub(super) async fn take(home: &Home, targets: &[String], wish: &Wish<'_>) -> Result<ProfileView, Failure> {
    let mut client = client_for(home, targets).await?;
    let found = described(&mut client, targets).await?;
    let [app] = found.as_slice() else {
        let error = format!("--profile is about one app, but {} are named", found.len());
        return Err(Failure::new(Exit::WrongUse, error).hint("name the app, or a worker by its id"));
    };
    let pm_id = worker_of(app, targets, Load::Cpu)?;
    let path = wish.folder.join(name_of(&app.definition.name, pm_id, "cpuprofile"));
    // A folder that cannot be written to is told before anything is measured.
    let mut file = ProfileFile::begin(&path)?;
    let request = ProfileRequest::cpu(pm_id.to_string(), wish.length.min(LENGTH_MAX));
    let json = read(client, &request).await?;
    let profile = CpuProfile::parse(&json).map_err(|error| Failure::new(Exit::Failed, error))?;
    file.write(&json)?;
    file.keep(false)?;
    let functions = Functions::of(&profile);
    let root = app.definition.cwd.as_str();
    let subject = Subject {
        app: &app.definition.name,
        worker: pm_id,
        root,
        taken_at: &utc(forkful_os::wall_clock::now_ms(), "%Y-%m-%d %H:%M:%S UTC"),
        nonce: &nonce()?,
    };
    let page_path = path.with_extension("html");
    let mut file = ProfileFile::begin(&page_path)?;
    file.write(page(&subject, &profile, &functions).as_bytes())?;
    file.keep(false)?;
    let files = ProfileFiles { profile: absolute(&path), page: absolute(&page_path) };
    Ok(ProfileView::new(pm_id, &profile, &functions, root, files))
}

fn nonce() -> Result<String, Failure> {
    let secret = forkful_os::random::secret().map_err(|error| Failure::caused(Exit::Failed, error.into()))?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn read(client: Client, request: &ProfileRequest) -> Result<Vec<u8>, Failure> {
    let mut reader = client.profile(request).await?;
    let mut json = Vec::new();
    while let Some(bytes) = reader.next().await? {
        if json.len() + bytes.len() > BYTES_MAX {
            return Err(Failure::new(Exit::Failed, "the profile is too large"));
        }
        json.extend_from_slice(&bytes);
    }
    Ok(json)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
