//! The file through which a browser gets the dashboard's link.
//!
//! The link has a token, and every user of the machine can read the arguments of all processes. So the browser is started with the
//! path of a page that only this user can read, and that leads to the link.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use fs_err::os::unix::fs::OpenOptionsExt as _;

use crate::output::flame::escaped;

/// How long the page exists: a browser that has to be started first may take this long to read it.
pub(super) const PAGE_LIFE: Duration = Duration::from_secs(60);

/// What is older was left behind, and its link has expired.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(600);

/// The rest of a name is random.
const NAME: (&str, &str) = ("dashboard-", ".html");

/// Opens `$1` with `$0`, which may run as long as the browser, and removes it after `$2` seconds.
const OPEN: &str = r#""$0" "$1" & sleep "$2"; rm -f -- "$1""#;

/// Writes a page that leads to `url` into the home.
pub(super) fn write(home: &Path, url: &str) -> io::Result<PathBuf> {
    remove_left_behind(home);
    let random: String =
        forkful_os::random::secret()?[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = home.join(format!("{}{random}{}", NAME.0, NAME.1));
    // Neither an existing file nor a link is opened.
    let mut file = fs_err::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let url = escaped(url);
    let written = writeln!(
        file,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<title>Forkful</title>\n\
         <p><a href=\"{url}\">Open the dashboard</a></p>"
    );
    match written {
        Ok(()) => Ok(path),
        Err(error) => {
            remove(&path);
            Err(error)
        }
    }
}

/// Starts a process that opens the page and removes it after `life`.
pub(super) fn open(opener: &OsStr, page: &Path, life: Duration) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", OPEN])
        .args([opener, page.as_os_str()])
        .arg(life.as_secs_f64().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C of a later command in this terminal does not end it.
        .process_group(0)
        .spawn()
}

/// Removes the page. A page that stays can be read by this user alone, and its link works once.
pub(super) fn remove(page: &Path) {
    let _removed = fs_err::remove_file(page);
}

/// Removes pages of processes that were killed before they did.
fn remove_left_behind(home: &Path) {
    let Ok(entries) = fs_err::read_dir(home) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_page = name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1));
        let written = || entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = |at: SystemTime| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND_AFTER);
        if is_page && written().is_ok_and(is_old) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const URL: &str = "http://127.0.0.1:4000/#token=0123456789abcdef";

    #[test]
    fn a_page_leads_to_the_link_and_is_for_its_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let page = write(home.path(), URL).unwrap();
        let mode = fs_err::metadata(&page).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!page.to_str().unwrap().contains("0123456789abcdef"), "{}", page.display());
        let text = fs_err::read_to_string(&page).unwrap();
        assert!(
            text.contains(&format!("content=\"0; url={URL}\"")) && text.contains(&format!("href=\"{URL}\""))
        );
        assert!(!text.contains("<script"), "{text}");
        assert_ne!(write(home.path(), URL).unwrap(), page, "two commands have a page each");
    }

    #[test]
    fn pages_that_were_left_behind_are_removed_and_no_other_files() {
        let home = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - LEFT_BEHIND_AFTER - Duration::from_secs(1);
        let made = |name: &str, at: Option<SystemTime>| {
            let path = home.path().join(name);
            let file = fs_err::File::create(&path).unwrap();
            at.into_iter().for_each(|at| file.set_modified(at).unwrap());
            path
        };
        let left = made("dashboard-1.html", Some(old));
        let kept =
            [made("dashboard-2.html", None), made("state.json", Some(old)), made("dashboard-x", Some(old))];
        write(home.path(), URL).unwrap();
        assert!(!left.exists() && kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn the_token_is_in_the_arguments_of_no_process_and_the_page_goes() {
        let home = tempfile::tempdir().unwrap();
        let page = write(home.path(), URL).unwrap();
        let [opener, told] = ["opener", "told"].map(|name| home.path().join(name));
        // Keeps what it was started with, and what its parent was.
        let script = format!(
            "#!/bin/sh\n{{ tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$PPID/cmdline; cat \"$1\"; }} > '{0}.new'\nmv '{0}.new' '{0}'\n",
            told.display()
        );
        forkful_testkit::write_executable(&opener, &script);
        let mut process = open(opener.as_os_str(), &page, Duration::from_millis(500)).unwrap();
        forkful_testkit::wait_until("the page is opened", || told.exists());
        let told = fs_err::read_to_string(&told).unwrap();
        let (arguments, text) = told.split_once("<!doctype html>").unwrap();
        assert!(arguments.contains(page.to_str().unwrap()) && !arguments.contains("token"), "{arguments}");
        assert!(text.contains(URL));
        assert!(process.wait().unwrap().success() && !page.exists());
    }
}
