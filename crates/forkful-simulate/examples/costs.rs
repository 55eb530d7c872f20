//! Measures the dispatcher's own CPU time, without system calls, by the number of workers.
//!
//! `cargo run --profile scale -p forkful-simulate --example costs`
#![expect(clippy::print_stdout, reason = "a measurement")]

use forkful_simulate::scale::machine;

fn main() {
    for workers in [2, 8, 32, 128, 512] {
        println!("{workers:>3} workers: {:?}", machine(workers));
    }
}
