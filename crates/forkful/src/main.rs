//! The program `forkful`; all of it is in the library.

use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: forkful_os::heap::Allocator = forkful_os::heap::Allocator;

fn main() -> ExitCode {
    forkful::main()
}
