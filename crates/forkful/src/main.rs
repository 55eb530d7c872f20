//! The program `forkful`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    forkful::main()
}
