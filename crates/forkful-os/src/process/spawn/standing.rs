//! A program that is prepared once and can be started again and again, without any allocation: for the keeper, which has
//! to start the daemon when there is no memory left.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::prepared::{Files, Image, c_path};
use super::{Failed, Flight, Orders, new_stack, start};
use crate::process::{SpawnPlan, path_of};
use crate::{priority, procinfo};

/// See the module's documentation. A process that could not execute its program is left to who reaps all children.
pub struct Standing {
    image: Image,
    files: Files,
    stack: Vec<MaybeUninit<u8>>,
}

impl Standing {
    /// Prepares a plan whose channel is given at each start. Users, groups and marks of the plan are not looked at.
    pub fn new(plan: SpawnPlan) -> io::Result<Self> {
        let image = Image::prepare(&plan)?;
        Ok(Self { image, files: Files::prepare(plan)?, stack: new_stack() })
    }

    /// Starts the program, or another one in its stead, with this descriptor as its number 3, which must be none of 0 to 3;
    /// gives its process id and its pidfd.
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
            shell_argv: &self.image.shell_argv_pointers,
            env: &self.image.env_pointers,
            files: [stdin, stdout, stderr, channel.as_raw_fd()],
            open_files: procinfo::original_open_files_limit(),
            mark: crate::tree::Mark::inherited_limit_without(),
            scheduling: priority::original_attributes(),
            run_as: None,
            flight: &flight,
            groups: &[],
            groups_required: false,
            parent: 0,
            failure: MaybeUninit::zeroed(),
        };
        start(orders, &mut self.stack).map_err(|Failed { source, .. }| source)
    }
}
