//! The keeper's end of the connection to its daemon.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forkful_os::keeper::{Frame, receive_frame, send_frame};

/// See the module's documentation. A daemon that has ended may have sent its last frames just before: these are received,
/// also when sending to it has failed.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    /// Nothing more can be received.
    is_deaf: bool,
    /// Nothing more can be sent.
    is_mute: bool,
}

impl Connection {
    /// A connection to a running daemon.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, is_deaf: false, is_mute: false }
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether to wait for frames.
    pub(crate) fn receives(&self) -> bool {
        !self.is_deaf
    }

    /// Whether frames can be sent.
    pub(crate) fn sends(&self) -> bool {
        !self.is_mute
    }

    /// The next frame, if there is one now.
    pub(crate) fn receive(&mut self) -> Option<(Frame, Option<OwnedFd>)> {
        if self.is_deaf {
            return None;
        }
        match receive_frame(self.socket.as_fd()) {
            Ok(Some(received)) => Some(received),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // The end, or an unknown message: nothing after it is used.
            Ok(None) | Err(_) => {
                self.is_deaf = true;
                None
            }
        }
    }

    /// Sends a frame. After an error other than those for which `may_repeat`, nothing more is sent.
    pub(crate) fn send(
        &mut self,
        frame: &Frame,
        descriptor: Option<BorrowedFd<'_>>,
        may_repeat: impl Fn(&io::Error) -> bool,
    ) -> io::Result<()> {
        let sent = send_frame(self.socket.as_fd(), frame, descriptor);
        self.is_mute |= sent.as_ref().is_err_and(|error| !may_repeat(error));
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_os::keeper::seat;

    #[test]
    fn what_a_daemon_has_sent_before_its_end_is_received_after_sending_to_it_has_failed() {
        let (ours, theirs) = seat().unwrap();
        let mut connection = Connection::new(ours);
        assert!(connection.receive().is_none() && connection.receives());
        connection.send(&Frame::Child, None, |_| false).unwrap();
        let program = std::fs::File::open("/dev/null").unwrap();
        send_frame(theirs.as_fd(), &Frame::Update, Some(program.as_fd())).unwrap();
        drop(theirs);
        assert!(connection.send(&Frame::Child, None, |_| false).is_err() && !connection.sends());
        assert!(connection.receives());
        let Some((Frame::Update, Some(_))) = connection.receive() else { panic!("the order is lost") };
        assert!(connection.receive().is_none() && !connection.receives());
    }
}
