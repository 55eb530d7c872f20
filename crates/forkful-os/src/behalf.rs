//! Opens, creates, renames and removes files on behalf of a user: the operator sets a path, but an app of
//! another user, or any other user, can write to some folder along it. Used by a daemon of root for logs,
//! archives, pid files and environment files.
//!
//! # How
//! [`Entry::find`] walks the path by descriptors and returns an [`Entry`]: the open [`Folder`], and the name
//! of the file in it. All operations are methods of the entry and act on that folder and that name, so that
//! replacing a folder or a link after the walk has no effect. If the path has no links and the kernel
//! supports it, the walk is one `openat2(2)`; otherwise it goes component by component.
//!
//! ```no_run
//! use std::path::Path;
//! use forkful_os::behalf::{Entry, Find, Identity};
//! # fn main() -> std::io::Result<()> {
//! let log = Entry::find(Path::new("/home/ann/logs/out.log"), Find::TO_WRITE)?;
//! let file = log.append(0o640)?;                               // created if it is absent
//! log.rename_new("out.log.1".as_ref(), Identity::of(&file)?)?; // only if it is still that file
//! let text = Entry::find(Path::new("/home/ann/.env"), Find::TO_READ)?.read_whole(1 << 20)?;
//! # drop(text); Ok(()) }
//! ```
//!
//! # Rules, if the thread has root's file rights
//! - Links owned by root are always followed. Links owned by another user are followed only to what that user
//!   owns: the file itself, or the folder in which a file is created, renamed or removed. Links into `/proc`
//!   are followed only if root owns them.
//! - A hard link that another user may have made to a file that the user does not own is refused.
//! - A file is opened without waiting (`O_NONBLOCK`), and never through a link created after the walk
//!   (`O_NOFOLLOW`). Only regular files of bounded size are read.
//! - Names passed to methods are single names, without slashes.
//!
//! A daemon that does not run as root takes the same steps but follows all links, as the kernel does: links
//! of others lead nowhere that its user could not go anyway. The same holds within [`as_user`], which gives
//! the thread the file rights of a user, so that the kernel checks each step: use it to read or create files
//! that an app of that user requests.
//!
//! Refusals are [`Refused`] within an [`std::io::Error`] of the kind `PermissionDenied`; see [`is_refusal`].
//! The kernel's errors do not include the path; the caller adds it.

mod entry;
mod folder;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/rights.rs"]
mod rights;
#[cfg(target_os = "linux")]
mod walk;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/walk.rs"]
mod walk;

#[cfg(test)]
mod tests;

pub use entry::{Entry, Find, Found, Identity, read_whole};
pub use folder::{Folder, NAMES_MAX, Refused, is_refusal};
pub use rights::{Rights, as_user};
