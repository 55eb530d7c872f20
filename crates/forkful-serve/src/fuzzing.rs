//! A fuzz target: arbitrary bytes on a connection to the file server.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use crate::login::Login;
use crate::root::Root;
use crate::server::HEAD_TIMEOUT;
use crate::settings::Settings;
use crate::site::Site;

/// Capacity of an in-memory connection in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// Requests on one connection. The first byte selects the settings: a login, listings, a single-page app.
pub fn serve(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    FIXTURE.with(|(runtime, sites)| {
        let site = &sites[usize::from(*first) % sites.len()];
        runtime.block_on(connection(site, bytes));
    });
}

thread_local! {
    static FIXTURE: (Runtime, Vec<Arc<Site>>) = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        (runtime.expect("a loop for one thread"), (0..8).map(site).collect())
    };
}

fn site(flags: u8) -> Arc<Site> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = Root::new(&path).expect("the sources are there");
    let settings = Settings {
        path,
        spa: flags & 1 != 0,
        listing: flags & 2 != 0,
        cors: true,
        homepage: "/lib.rs".to_owned(),
        login: (flags & 4 != 0).then(|| Login::new("ann", "secret")),
        ..Settings::default()
    };
    Arc::new(Site::new(root, settings))
}

async fn connection(site: &Arc<Site>, bytes: &[u8]) {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    // Different clients; otherwise all but the first inputs with a wrong password would be refused.
    let sum = bytes.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
    let client = IpAddr::from(Ipv4Addr::from_bits(sum));
    let answer = service_fn(|request| {
        let site = Arc::clone(site);
        async move {
            let response = site.answer(request, client).await;
            assert!(!response.status().is_server_error(), "{}", response.status());
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(theirs), answer);
    let (mut from, mut to) = tokio::io::split(ours);
    let write = async move {
        drop(to.write_all(bytes).await);
        drop(to.shutdown().await);
    };
    let read = async move {
        let (mut answer, mut first) = (vec![0; 4096], true);
        while let Ok(read @ 1..) = from.read(&mut answer).await {
            assert!(!first || answer[..read].starts_with(b"HTTP/1."), "no answer of HTTP");
            first = false;
        }
    };
    let (_, (), ()) = tokio::join!(served, write, read);
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_serve() {
        forkful_testkit::replay("serve", super::serve);
    }
}
