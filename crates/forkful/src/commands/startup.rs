//! `forkful startup` and `forkful unstartup`: start the daemon and its apps at boot. If privileges are
//! missing, the exact commands are printed instead.

mod templates;
mod trust;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use clap::{Args, ValueEnum};
use forkful_core::pages::Page;
use forkful_os::behalf::{Entry, Find};
use forkful_os::users;
use templates::Service;

#[derive(Debug, Args)]
#[command(after_help = "\
The init system is detected by default. As root the service is installed system-wide. If privileges
are missing, the commands are printed, nothing is changed, and the exit code is 1.

Examples:
  forkful startup                       a systemd unit of your user
  forkful startup --system              a system-wide unit that runs as you
  forkful startup openrc --print        only show it")]
pub(crate) struct StartupArgs {
    /// Init system; detected by default.
    #[arg(value_enum)]
    pub(crate) platform: Option<Platform>,
    /// Install a system-wide service that starts before any login; the default for root.
    #[arg(long)]
    pub(crate) system: bool,
    /// User of a system-wide service; by default you.
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// The home directory of that user.
    #[arg(long, visible_alias = "hp", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// The service's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) service_name: Option<String>,
    /// Wait for the network before starting (system-wide services).
    #[arg(long, alias = "wait-ip")]
    pub(crate) wait_network: bool,
    /// Let apps listen on ports below 1024 (systemd, system-wide services).
    #[arg(long)]
    pub(crate) low_ports: bool,
    /// Only show the file.
    #[arg(long)]
    pub(crate) print: bool,
}

/// An init system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    #[value(alias = "ubuntu", alias = "centos", alias = "arch", alias = "oracle", alias = "debian")]
    Systemd,
    #[value(alias = "gentoo", alias = "alpine")]
    Openrc,
    #[value(alias = "darwin", alias = "macos")]
    Launchd,
}

/// The search path for programs if no directory of the caller's PATH was kept.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Modes of a service file and of folders created for it: service managers of other users may read both.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A service file, its path, and the commands that enable it.
struct Plan {
    file: PathBuf,
    text: String,
    /// Commands after writing the file, as words.
    enable: Vec<Vec<String>>,
    /// Commands before removing the file.
    disable: Vec<Vec<String>>,
    /// Whether root privileges are needed.
    needs_root: bool,
    /// What to do by hand.
    hint: Option<String>,
    /// Files of a system service that other users could replace.
    warnings: Vec<String>,
}

pub(super) async fn run(home: &Home, args: &StartupArgs) -> Result<Exit, Failure> {
    let plan = plan(home, args)?;
    plan.warnings.iter().for_each(|warning| output::warn(warning));
    if args.print {
        output::print(&plan.text)?;
        return Ok(Exit::Done);
    }
    if plan.needs_root && !is_root() {
        super::unsaved::tell_of_running(home).await;
        return show_commands(&plan);
    }
    write(&plan.file, &plan.text).map_err(|error| failed("write", &plan.file, error))?;
    for command in &plan.enable {
        perform(command)?;
    }
    output::say(&format!("{} is installed: the daemon starts at boot\n", plan.file.display()))?;
    if let Some(hint) = &plan.hint {
        output::note(hint);
    }
    super::unsaved::tell_of_running(home).await;
    Ok(Exit::Done)
}

pub(super) fn remove(home: &Home, args: &StartupArgs) -> Result<Exit, Failure> {
    let plan = plan(home, args)?;
    if !plan.file.exists() {
        output::say(&format!("{} does not exist: nothing starts at boot\n", plan.file.display()))?;
        return Ok(Exit::Done);
    }
    if plan.needs_root && !is_root() {
        let lines: String =
            plan.disable.iter().map(|command| format!("sudo {}\n", command.join(" "))).collect();
        output::print(&format!("{lines}sudo rm {}\n", plan.file.display()))?;
        return Err(no_rights(&plan, "unstartup"));
    }
    for command in &plan.disable {
        // A service that is unknown counts as disabled.
        if let Err(failure) = perform(command) {
            output::warn(&format!("{}", failure.error));
        }
    }
    let removed = entry(&plan.file, None).and_then(|file| file.remove(None));
    removed.map_err(|error| failed("remove", &plan.file, error))?;
    output::say(&format!("{} is removed: nothing starts at boot any more\n", plan.file.display()))?;
    Ok(Exit::Done)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn plan(home: &Home, args: &StartupArgs) -> Result<Plan, Failure> {
    let platform = match args.platform {
        Some(platform) => platform,
        None => detect().ok_or_else(|| {
            Failure::new(Exit::WrongUse, "cannot detect the init system of this machine")
                .hint("name it: systemd, openrc or launchd; --print shows the file")
                .see(Page::Boot)
        })?,
    };
    let of_system = args.system || args.user.is_some() || is_root() || platform == Platform::Openrc;
    check_options(args, platform, of_system)?;
    let ending = match platform {
        Platform::Systemd => ".service",
        Platform::Openrc => "",
        Platform::Launchd => ".plist",
    };
    let service = service(home, args, of_system, ending)?;
    Ok(match platform {
        Platform::Systemd => systemd(&service, of_system),
        Platform::Openrc => openrc(&service),
        Platform::Launchd => launchd(&service, of_system),
    })
}

/// Refuses options that this kind of service cannot have.
fn check_options(args: &StartupArgs, platform: Platform, of_system: bool) -> Result<(), Failure> {
    let refuse = |error: &str, hint: &str| {
        Err(Failure::new(Exit::WrongUse, error).hint(hint.to_owned()).see(Page::Boot))
    };
    if args.low_ports && platform != Platform::Systemd {
        return refuse(
            "--low-ports needs a service of systemd",
            "leave it out; on Linux `sysctl net.ipv4.ip_unprivileged_port_start=80` opens the ports to all programs",
        );
    }
    if args.low_ports && !of_system {
        return refuse("--low-ports needs a system-wide service", "add --system");
    }
    if args.wait_network && !of_system && platform == Platform::Systemd {
        return refuse(
            "--wait-network needs a system-wide service: a user's systemd does not know the network",
            "add --system",
        );
    }
    if args.wait_network && platform == Platform::Launchd {
        return refuse(
            "--wait-network does not work with launchd, which cannot wait for the network",
            "leave it out; an app that needs the network is restarted until it can start",
        );
    }
    Ok(())
}

fn detect() -> Option<Platform> {
    if Path::new("/run/systemd/system").exists() {
        Some(Platform::Systemd)
    } else if Path::new("/sbin/openrc-run").exists() {
        Some(Platform::Openrc)
    } else if Path::new("/bin/launchctl").exists() {
        Some(Platform::Launchd)
    } else {
        None
    }
}

/// The service's contents. `ending` is that of the platform's files, which the given name may have.
fn service(home: &Home, args: &StartupArgs, of_system: bool, ending: &str) -> Result<Service, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    let own = users::user_by_id(rustix::process::geteuid().as_raw());
    let user = match &args.user {
        Some(name) => Some(users::find_user(name).ok_or_else(|| {
            Failure::new(Exit::WrongUse, format!("unknown user `{name}`"))
                .hint("`getent passwd` lists them")
                .see(Page::Boot)
        })?),
        None => own.clone(),
    };
    let user_home = args
        .home
        .clone()
        .or_else(|| user.as_ref().map(|user| PathBuf::from(&user.home)))
        .unwrap_or_else(|| PathBuf::from("/"));
    let is_other =
        args.home.is_some() || user.as_ref().map(|user| user.uid) != own.as_ref().map(|own| own.uid);
    let forkful_home = if is_other { user_home.join(".forkful") } else { home.path().to_owned() };
    let name = args.service_name.as_deref().unwrap_or("forkful");
    let name = name.strip_suffix(ending).unwrap_or(name).to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Failure::new(Exit::WrongUse, format!("{name:?} cannot be the name of a service"))
            .hint("letters, digits, `-`, `_`, `.` and `@` are possible")
            .see(Page::Boot));
    }
    Ok(Service {
        name,
        program,
        home: forkful_home,
        user_home,
        user: of_system.then(|| user.map_or_else(|| "root".to_owned(), |user| user.name)),
        path: search_path(),
        wait_network: args.wait_network,
        low_ports: args.low_ports,
    })
}

/// The caller's PATH with absolute directories only, so that apps find the same programs after a boot.
pub(super) fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let is_fit =
        |part: &&str| part.starts_with('/') && !part.contains(|c: char| c.is_whitespace() || c == '%');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(':').filter(is_fit).chain(PATH_DEFAULT.split(':')) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(":")
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

fn systemd(service: &Service, of_system: bool) -> Plan {
    let unit = format!("{}.service", service.name);
    let systemctl = |rest: &[&str]| {
        let first: &[&str] = if of_system { &["systemctl"] } else { &["systemctl", "--user"] };
        words(&[first, rest].concat())
    };
    let folder = if of_system {
        PathBuf::from("/etc/systemd/system")
    } else {
        let config = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty());
        config.map_or_else(|| service.user_home.join(".config"), PathBuf::from).join("systemd/user")
    };
    let linger = "your units start when you log in and end when you log out; `loginctl enable-linger` starts them at boot and keeps them running";
    Plan {
        file: folder.join(&unit),
        text: templates::systemd(service),
        enable: vec![systemctl(&["daemon-reload"]), systemctl(&["enable", &unit])],
        disable: vec![systemctl(&["disable", &unit])],
        needs_root: of_system,
        hint: (!of_system).then(|| linger.to_owned()),
        warnings: warnings(service, of_system),
    }
}

fn warnings(service: &Service, of_system: bool) -> Vec<String> {
    if of_system { trust::warnings(service) } else { Vec::new() }
}

fn openrc(service: &Service) -> Plan {
    Plan {
        file: Path::new("/etc/init.d").join(&service.name),
        text: templates::openrc(service),
        enable: vec![
            words(&["chmod", "+x", &format!("/etc/init.d/{}", service.name)]),
            words(&["rc-update", "add", &service.name, "default"]),
        ],
        disable: vec![words(&["rc-update", "del", &service.name, "default"])],
        needs_root: true,
        hint: None,
        warnings: warnings(service, true),
    }
}

fn launchd(service: &Service, of_system: bool) -> Plan {
    let label = format!("{}.plist", service.name);
    let file = if of_system {
        Path::new("/Library/LaunchDaemons").join(label)
    } else {
        service.user_home.join("Library/LaunchAgents").join(label)
    };
    let path = file.display().to_string();
    Plan {
        text: templates::launchd(service),
        enable: vec![words(&["launchctl", "load", "-w", &path])],
        disable: vec![words(&["launchctl", "unload", "-w", &path])],
        needs_root: of_system,
        hint: None,
        warnings: warnings(service, of_system),
        file,
    }
}

/// The service file in its open folder: with root's rights, no link of another user leads elsewhere.
fn entry(file: &Path, make_folders: Option<u32>) -> io::Result<Entry> {
    Entry::find(&std::path::absolute(file)?, Find { make_folders, follow_last: false })
}

fn failed(verb: &str, file: &Path, error: io::Error) -> Failure {
    let context = format!("cannot {verb} {}", file.display());
    Failure::caused(Exit::Failed, anyhow::Error::new(error).context(context))
}

/// Writes the file atomically and syncs it to the disk.
fn write(file: &Path, text: &str) -> io::Result<()> {
    entry(file, Some(FOLDER_MODE))?.replace_whole(FILE_MODE, |open| {
        open.write_all(text.as_bytes())?;
        open.sync_all()
    })
}

fn perform(command: &[String]) -> Result<(), Failure> {
    let line = command.join(" ");
    let output = Command::new(&command[0]).args(&command[1..]).output().map_err(|e| {
        Failure::caused(Exit::Failed, anyhow::Error::new(e).context(format!("cannot run `{line}`")))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::new(Exit::Failed, format!("`{line}` ended with {}: {said}", output.status))
        .hint("the file is installed; fix the cause, then run the command by hand")
        .see(Page::Boot))
}

/// The commands for root: the file as a here-document, then the commands.
fn show_commands(plan: &Plan) -> Result<Exit, Failure> {
    let enable: String = plan.enable.iter().map(|command| format!("sudo {}\n", command.join(" "))).collect();
    output::print(&format!(
        "sudo tee {file} > /dev/null <<'END'\n{text}END\n{enable}",
        file = shell_words::quote(&plan.file.display().to_string()),
        text = plan.text
    ))?;
    Err(no_rights(plan, "startup"))
}

fn no_rights(plan: &Plan, command: &str) -> Failure {
    Failure::new(Exit::Failed, format!("only root may write {}", plan.file.display()))
        .hint(format!("run the commands above, or `sudo forkful {command} --user <you>`"))
        .see(Page::Boot)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_service_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("systemd/user/forkful.service");
        write(&file, "old").unwrap();
        write(&file, "new").unwrap();
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs_err::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft stays");
        assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o600, 0o600);
        assert!(entry(&file, None).unwrap().remove(None).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn a_service_of_a_users_systemd_cannot_wait_for_the_network() {
        let args = StartupArgs {
            platform: None,
            system: false,
            user: None,
            home: None,
            service_name: None,
            wait_network: true,
            low_ports: false,
            print: true,
        };
        let fault = |platform, of_system| check_options(&args, platform, of_system).err();
        let refused = fault(Platform::Systemd, false).unwrap();
        assert_eq!((refused.exit, refused.hint.as_deref()), (Exit::WrongUse, Some("add --system")));
        assert!(fault(Platform::Systemd, true).is_none() && fault(Platform::Openrc, true).is_none());
    }

    #[test]
    fn without_rights_the_same_command_is_named() {
        let plan = Plan {
            file: "/etc/init.d/forkful".into(),
            text: String::new(),
            enable: Vec::new(),
            disable: Vec::new(),
            needs_root: true,
            hint: None,
            warnings: Vec::new(),
        };
        for command in ["startup", "unstartup"] {
            let hint = no_rights(&plan, command).hint.unwrap();
            assert!(hint.contains(&format!("`sudo forkful {command} --user")), "{hint}");
        }
    }

    #[test]
    fn root_follows_no_link_of_another_user_to_a_service_file() {
        if !is_root() {
            eprintln!("SKIPPED: only root may give files to others");
            return;
        }
        const OTHER: Option<u32> = Some(61_001);
        let folder = tempfile::tempdir().unwrap();
        fs_err::set_permissions(folder.path(), fs_err::metadata("/").unwrap().permissions()).unwrap();
        let (home, secret) = (folder.path().join("home"), folder.path().join("secret"));
        fs_err::create_dir_all(&home).unwrap();
        fs_err::create_dir_all(&secret).unwrap();
        fs_err::write(secret.join("forkful.service"), "mine").unwrap();
        chown(&home, OTHER, OTHER).unwrap();
        symlink(&secret, home.join("units")).unwrap();
        lchown(home.join("units"), OTHER, OTHER).unwrap();
        let file = home.join("units/forkful.service");
        assert!(write(&file, "text").is_err());
        assert!(entry(&file, None).and_then(|entry| entry.remove(None)).is_err());
        assert_eq!(fs_err::read_to_string(secret.join("forkful.service")).unwrap(), "mine");
        assert_eq!(fs_err::read_dir(&secret).unwrap().count(), 1);
    }
}
