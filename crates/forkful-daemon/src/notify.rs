//! Telling a service manager how we are, by the protocol of `sd_notify(3)`: one datagram per change to the
//! socket that `NOTIFY_SOCKET` names. Without the variable nobody is told.

use std::env;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use forkful_os::keeper::Keeping;

/// The least time between two signs of life; a manager that asks for more would only be made busy.
const PULSE_MIN: Duration = Duration::from_millis(100);

/// The service manager of this process.
#[derive(Debug)]
pub(crate) enum ServiceManager {
    Socket {
        socket: UnixDatagram,
        address: SocketAddr,
    },
    /// It knows the keeper alone, which passes on what it is told.
    ThroughKeeper(Keeping),
}

impl ServiceManager {
    /// The service manager that started this process, if there is one.
    pub(crate) fn from_environment(keeping: Keeping) -> Option<Self> {
        let name = env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty())?;
        if keeping.is_on() {
            return Some(Self::ThroughKeeper(keeping));
        }
        match Self::at(&name) {
            Ok(manager) => Some(manager),
            Err(error) => {
                log_line!("forkful: the service manager at {name} cannot be told anything: {error}");
                None
            }
        }
    }

    fn at(name: &str) -> io::Result<Self> {
        let address = match name.strip_prefix('@') {
            Some(name) => forkful_os::connection::abstract_address(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self::Socket { socket, address })
    }

    /// Tells one or more lines, as `READY=1`. A manager that cannot listen right now misses them.
    pub(crate) fn tell(&self, lines: &str) {
        match self {
            Self::Socket { socket, address } => drop(socket.send_to_addr(lines.as_bytes(), address)),
            Self::ThroughKeeper(keeping) => keeping.tell_manager(lines),
        }
    }

    /// How often it wants to hear that we are alive: half of its patience.
    pub(crate) fn pulse(&self) -> Option<Duration> {
        let main = match self {
            Self::Socket { .. } => None,
            Self::ThroughKeeper(keeping) => keeping.keeper(),
        };
        let main = main.unwrap_or_else(std::process::id).to_string();
        let is_for_us = env::var("WATCHDOG_PID").map_or(true, |pid| pid == main);
        let patience: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok().filter(|usec| *usec > 0)?;
        is_for_us.then(|| (Duration::from_micros(patience) / 2).max(PULSE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_us_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("forkful-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name =
            UnixDatagram::bind_addr(&forkful_os::connection::abstract_address(&abstract_name).unwrap())
                .unwrap();
        for (ear, name) in [(by_path, path.display().to_string()), (by_name, format!("@{abstract_name}"))] {
            ServiceManager::at(&name).unwrap().tell("READY=1\nSTATUS=ok");
            let mut heard = [0; 64];
            let length = ear.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1\nSTATUS=ok");
        }
        // Nobody is there: told to nobody, and no fault.
        ServiceManager::at("/nowhere/notify").unwrap().tell("READY=1");
    }
}
