//! A program prepared once that can be started repeatedly without allocation: the keeper must be able to
//! start the daemon when memory is exhausted.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::prepared::{Files, Image, c_path};
use super::{Failed, Flight, Orders, new_stack, start};
use crate::process::{SpawnPlan, path_of};
use crate::{priority, procinfo};

/// See the module's documentation. The shell runs none of its programs. If a process could not execute its program, the code that reaps all
/// children reaps it.
pub struct Standing {
    image: Image,
    files: Files,
    stack: Vec<MaybeUninit<u8>>,
}

impl Standing {
    /// Prepares a plan whose channel is set at each start. The plan's users, groups and marks are ignored.
    pub fn new(plan: SpawnPlan) -> io::Result<Self> {
        let image = Image::prepare(&plan)?;
        Ok(Self { image, files: Files::prepare(plan)?, stack: new_stack() })
    }

    /// Starts the program, or another program instead, with this descriptor as number 3 (it must not be one
    /// of 0 to 3). Returns its pid and pidfd.
    pub fn start(
        &mut self,
        channel: BorrowedFd<'_>,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<(u32, OwnedFd)> {
        let other = other.map(|file| c_path(&path_of(file))).transpose()?;
        let flight = Flight::default();
        let [stdin, stdout, stderr, _] = self.files.raw();
        let orders = Orders {
            program: other.as_ref().unwrap_or(&self.image.program),
            cwd: &self.image.cwd,
            argv: &self.image.argv_pointers,
            env: &self.image.env_pointers,
            files: [stdin, stdout, stderr, channel.as_raw_fd()],
            open_files: procinfo::original_open_files_limit(),
            mark: crate::tree::Mark::inherited_limit_without(),
            scheduling: priority::original_attributes(),
            run_as: None,
            flight: &flight,
            groups: &[],
            groups_required: false,
            child_of_keeper: false,
            failure: MaybeUninit::zeroed(),
        };
        start(orders, &mut self.stack).map_err(|Failed { source, .. }| source)
    }
}
