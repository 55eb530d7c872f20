//! Opens, creates, renames and removes files on behalf of a user: the operator names a path, but an app of another
//! user, or any other user, can write somewhere along it. Used by a daemon of root for logs, archives, pid files and
//! environment files.
//!
//! # How
//! [`Entry::find`] walks the path by descriptors and gives an [`Entry`]: the [`Folder`], held open, and the name of the
//! file in it. Everything else is a method of the entry and acts on that folder and that name, so that a folder or a
//! link that is exchanged after the walk changes nothing. The walk is one `openat2(2)` without links where the path has
//! none and the kernel has the call; otherwise it goes part by part.
//!
//! ```no_run
//! use std::path::Path;
//! use forkful_os::behalf::{Entry, Find, Identity};
//! # fn main() -> std::io::Result<()> {
//! let log = Entry::find(Path::new("/home/ann/logs/out.log"), Find::TO_WRITE)?;
//! let file = log.append(0o640)?;                               // made if it is absent
//! log.rename_new("out.log.1".as_ref(), Identity::of(&file)?)?; // only while it is that file
//! let text = Entry::find(Path::new("/home/ann/.env"), Find::TO_READ)?.read_whole(1 << 20)?;
//! # drop(text); Ok(()) }
//! ```
//!
//! # Rules, while the thread has the file rights of root
//! - Links of root are followed anywhere. Links of another user are followed only to what is that user's: the file
//!   itself, or a folder in which a file is made, renamed or removed. Links into `/proc` are followed for root only.
//! - A hard link that another user may have made to a file that is not that user's is refused.
//! - A file is opened without waiting (`O_NONBLOCK`), never through a link that was put there after the walk
//!   (`O_NOFOLLOW`), and what is read is a regular file of a bounded size.
//! - Names that are given to methods are single names, without slashes.
//!
//! A daemon that is not of root goes the same way but follows all links, as the kernel does for it: what others put
//! there leads nowhere that its user could not be led to anyway. The same holds within [`as_user`], which gives the
//! thread the file rights of a user, so that the kernel checks each step: the right way to read or create what an app of
//! that user asks for.
//!
//! Refusals are [`Refused`] within an [`std::io::Error`] of the kind `PermissionDenied`; see [`is_refusal`]. The errors
//! of the kernel do not name the path: the caller does.

mod entry;
mod folder;
mod rights;
mod walk;

#[cfg(test)]
mod tests;

pub use entry::{Entry, Find, Found, Identity, read_whole};
pub use folder::{Folder, NAMES_MAX, Refused, is_refusal};
pub use rights::{Rights, as_user};
