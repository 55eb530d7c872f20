//! Reports when something in a folder, or the folder itself, is removed: inotify, and kqueue on systems without it.

#[cfg(target_os = "linux")]
mod by_inotify;
#[cfg(not(target_os = "linux"))]
mod by_kqueue;

#[cfg(target_os = "linux")]
pub use by_inotify::Removals;
#[cfg(not(target_os = "linux"))]
pub use by_kqueue::Removals;
