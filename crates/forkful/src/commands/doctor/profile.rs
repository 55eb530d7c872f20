//! `--profile`: a CPU profile of one worker, as a file and as a page, and the functions that its time went to. It is taken when the doctor has
//! watched: the samples interrupt the event loop's wait, so that it seems busier than it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::client::Client;
use forkful_api::profile::ProfileRequest;
use forkful_api::types::{AppView, ProfileFiles, ProfileView};
use forkful_core::date_format::utc;
use forkful_core::profile::{BYTES_MAX, CpuProfile, Functions, LENGTH_MAX};

use crate::commands::profile_file::{ProfileFile, name_of};
use crate::commands::profiled::{Load, worker_of};
use crate::commands::targets::described;
use crate::exit::{Exit, Failure};
use crate::output::flame::{Subject, page};
use crate::output::progress::Progress;

/// Where the files of a profile go, and how long it takes.
pub(super) struct Wish<'a> {
    pub(super) folder: &'a Path,
    pub(super) length: Duration,
    pub(super) is_quiet: bool,
}

/// Whether the targets name one app with a worker, and files can be written to the folder, which is created: told before
/// anything is measured.
pub(super) async fn check(client: &mut Client, targets: &[String], folder: &Path) -> Result<(), Failure> {
    let found = described(client, targets).await?;
    let [app] = found.as_slice() else {
        let error = format!("--profile is about one app, but {} are named", found.len());
        return Err(Failure::new(Exit::WrongUse, error).hint("name the app, or a worker by its id"));
    };
    let pm_id = worker_of(app, targets, Load::Cpu)?;
    fs_err::create_dir_all(folder).map_err(|error| Failure::caused(Exit::Failed, error.into()))?;
    // The draft is gone when it is dropped.
    ProfileFile::begin(&folder.join(name_of(&app.definition.name, pm_id, "cpuprofile")))?;
    Ok(())
}

/// Takes a profile of the worker that a target names, else of the busiest one, and writes its files.
pub(super) async fn take(
    client: Client,
    targets: &[String],
    app: &AppView,
    wish: &Wish<'_>,
) -> Result<ProfileView, Failure> {
    let pm_id = worker_of(app, targets, Load::Cpu)?;
    let length = wish.length.min(LENGTH_MAX);
    let progress = (!wish.is_quiet)
        .then(|| Progress::start(format!("profiling worker {pm_id}, for {} s", length.as_secs())));
    let json = read(client, &ProfileRequest::cpu(pm_id.to_string(), length)).await?;
    drop(progress);
    let profile = CpuProfile::parse(&json).map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut file = ProfileFile::begin(&wish.folder.join(name_of(&app.definition.name, pm_id, "cpuprofile")))?;
    file.write(&json)?;
    let (path, _) = file.keep_beside_others()?;
    let functions = Functions::of(&profile);
    let root = app.definition.cwd.as_str();
    let subject = Subject {
        app: &app.definition.name,
        worker: pm_id,
        root,
        taken_at: &utc(forkful_os::wall_clock::now_ms(), "%Y-%m-%d %H:%M:%S UTC"),
        nonce: &nonce()?,
    };
    let mut file = ProfileFile::begin(&path.with_extension("html"))?;
    file.write(page(&subject, &profile, &functions).as_bytes())?;
    let (page_path, _) = file.keep_beside_others()?;
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
