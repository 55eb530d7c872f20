//! Pages of the documentation that messages name, all of them here: a hint says what to do in one line, its page says more.

/// Where docs/ is published, with a slash at its end.
pub const SITE: &str = "https://forkful.github.io/forkful/";

macro_rules! pages {
    ($($(#[$doc:meta])* $name:ident = $place:literal,)+) => {
        /// A page of docs/, and a place in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Page {
            $($(#[$doc])* $name,)+
        }

        impl Page {
            /// The file in docs/ and the place in it: `LOGS.md#rotation`.
            pub fn place(self) -> &'static str {
                match self {
                    $(Self::$name => $place,)+
                }
            }
        }
    };
}

pages! {
    /// How a message refers to apps and workers.
    Targets = "CLI.md#which-apps-a-command-means",
    /// Every command.
    Commands = "CLI.md",
    AppFails = "TROUBLESHOOTING.md#an-app-does-not-start",
    NotReady = "TROUBLESHOOTING.md#an-app-is-not-ready-in-time",
    Listening = "TROUBLESHOOTING.md#an-app-cannot-listen-on-its-port",
    AppExists = "TROUBLESHOOTING.md#an-app-of-that-name-exists",
    Interpreter = "TROUBLESHOOTING.md#a-script-or-its-interpreter-is-not-found",
    Daemon = "TROUBLESHOOTING.md#the-daemon",
    Home = "TROUBLESHOOTING.md#the-home-directory",
    Limits = "LIMITS.md",
    HeapLimit = "MEMORY.md#the-heap-limit-of-nodejs",
    NodeUpgrade = "NODE-UPGRADE.md#native-modules",
    DiskFull = "LOGS.md#when-the-disk-is-full-slow-or-gone",
    Environment = "ENVIRONMENT.md#where-a-variable-comes-from",
    Config = "CONFIG.md",
    Workers = "CONFIG.md#workers-and-connections",
    PidFile = "CONFIG.md#the-app",
    Start = "CONFIG.md#start-and-readiness",
    Apply = "RELOAD.md#apply-a-file",
    Saved = "CRASHES.md#what-is-saved",
    Update = "UPDATE.md",
    Portable = "MACOS.md#what-is-lacking",
    Boot = "REBOOT.md#which-service",
    Dashboard = "DASHBOARD.md",
    DoctorFix = "DOCTOR.md#--fix",
    Profiles = "PROFILES.md",
    Deploy = "DEPLOY.md#by-forkful-deploy",
    FromPm2 = "FROM-PM2.md",
    Pm2Commands = "FROM-PM2.md#commands",
    Pm2Options = "FROM-PM2.md#options",
    Export = "EXPORT.md",
    Bench = "MEASURING.md",
    BenchRequests = "MEASURING.md#several-requests",
    BenchSearch = "MEASURING.md#the-highest-rate",
    BenchTools = "MEASURING.md#the-habits-of-other-tools",
    FailedRequests = "MEASURING.md#when-requests-fail",
    Arms = "COMPARE.md#arms",
    CompareGit = "COMPARE.md#two-commits",
    ArmFails = "COMPARE.md#when-an-arm-does-not-serve",
    Tune = "TUNE.md",
    Experiments = "EXPERIMENTS.md",
}

impl Page {
    /// Its address on the site.
    pub fn url(self) -> String {
        address(self.place())
    }

    /// A hint that this page says more about.
    pub fn hint(self, text: impl Into<String>) -> Hint {
        Hint { text: text.into(), see: self.url() }
    }
}

/// The address of the section of a command, by its name (`import pm2`).
pub fn of_command(name: &str) -> String {
    address(&format!("CLI.md#forkful-{}", slug(name)))
}

/// The address of the keys below a heading of the configuration reference.
pub fn of_keys(heading: &str) -> String {
    address(&format!("CONFIG.md#{}", slug(heading)))
}

/// What to do about an error, and where more is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// One line without a full stop.
    pub text: String,
    /// The address of its page.
    pub see: String,
}

/// `CLI.md#exit-codes` on the site, whose addresses are names of files in lower case.
fn address(place: &str) -> String {
    let (file, anchor) = place.split_once('#').map_or((place, None), |(file, anchor)| (file, Some(anchor)));
    let page = file.trim_end_matches(".md").to_lowercase();
    match anchor {
        Some(anchor) => format!("{SITE}{page}#{anchor}"),
        None => format!("{SITE}{page}"),
    }
}

/// The id of a heading, as GitHub and the site make it.
pub fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | ' '));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_site() {
        assert_eq!(Page::Update.url(), "https://forkful.github.io/forkful/update");
        assert_eq!(Page::NodeUpgrade.url(), "https://forkful.github.io/forkful/node-upgrade#native-modules");
        assert_eq!(of_command("import pm2"), "https://forkful.github.io/forkful/cli#forkful-import-pm2");
        assert_eq!(of_keys("Workers and connections"), Page::Workers.url());
        assert_eq!(slug("`reusePort` and `exclusive`"), "reuseport-and-exclusive");
    }
}
