//! The man pages that packages carry.

use crate::sandbox::{Sandbox, done};

#[test]
fn the_pages_are_written_into_a_folder() {
    let sandbox = Sandbox::new();
    let folder = sandbox.work().join("share/man1");
    done(&sandbox, &["man", folder.to_str().unwrap()]);
    let page = fs_err::read_to_string(folder.join("forkful-start.1")).unwrap();
    assert!(page.contains(".TH forkful-start 1"), "{page}");
    assert!(folder.join("forkful.1").exists());
}
