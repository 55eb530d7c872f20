//! Access to the files of one directory, and nothing else: tower-http opens all files through this module.
//!
//! The kernel resolves each path beneath the root (`openat2`, Linux 5.6): neither `..` nor a link can lead
//! out of it, not even a link that is replaced at that moment. Names that begin with a dot (except
//! `.well-known`) are hidden, and so is everything that is not a regular file or directory. The root is
//! looked up again for each file, because builds and deployments replace it.

use std::io::{self, ErrorKind, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::fs::Dir;
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use tower_http::services::fs::{Backend, File};

/// Maximum entries in a listing.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: Arc<Path>,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Directories come first.
    pub(crate) is_file: bool,
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl Root {
    /// A root, which must exist and be readable.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let root = Self { path: std::path::absolute(path)?.into() };
        root.open_beneath(Path::new("."))?;
        Ok(root)
    }

    /// The absolute path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open_beneath(&self, path: &Path) -> io::Result<OwnedFd> {
        forkful_os::beneath::open_beneath(&self.path, path)
    }

    fn open_plain(&self, path: &Path) -> io::Result<std::fs::File> {
        if path.components().any(is_hidden) {
            return Err(ErrorKind::NotFound.into());
        }
        let file = std::fs::File::from(self.open_beneath(path)?);
        let kind = file.metadata()?.file_type();
        if kind.is_file() || kind.is_dir() { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// The entries of a directory, sorted, without hidden ones and ones that lead out of the root.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let directory = self.open_plain(path)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory)?.take(ENTRIES_MAX) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let Ok(metadata) = self.open_plain(&path.join(name)).and_then(|file| file.metadata()) else {
                continue;
            };
            entries.push(Entry { is_file: metadata.is_file(), name: name.to_owned(), bytes: metadata.len() });
        }
        entries.sort();
        Ok(entries)
    }
}

fn is_hidden(component: Component<'_>) -> bool {
    match component {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b".") && name != ".well-known",
        _ => false,
    }
}

impl Backend for Root {
    type File = Opened;
    type Metadata = std::fs::Metadata;
    type OpenFuture = Pin<Box<dyn Future<Output = io::Result<Opened>> + Send>>;
    type MetadataFuture = Pin<Box<dyn Future<Output = io::Result<std::fs::Metadata>> + Send>>;

    fn open(&self, path: PathBuf) -> Self::OpenFuture {
        let root = self.clone();
        Box::pin(aside(move || {
            let file = root.open_plain(&path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(ErrorKind::NotFound.into());
            }
            Ok(Opened { file: tokio::fs::File::from_std(file), metadata })
        }))
    }

    fn metadata(&self, path: PathBuf) -> Self::MetadataFuture {
        let root = self.clone();
        Box::pin(aside(move || root.open_plain(&path)?.metadata()))
    }
}

/// Runs work that may wait for the disk on a thread for blocking work.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// An open file to serve.
#[derive(Debug)]
pub(crate) struct Opened {
    file: tokio::fs::File,
    metadata: std::fs::Metadata,
}

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_read(context, buffer)
    }
}

impl AsyncSeek for Opened {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.file).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.file).poll_complete(context)
    }
}

impl File for Opened {
    type Metadata = std::fs::Metadata;
    type MetadataFuture<'a> = std::future::Ready<io::Result<std::fs::Metadata>>;

    fn metadata(&self) -> Self::MetadataFuture<'_> {
        std::future::ready(Ok(self.metadata.clone()))
    }
}
