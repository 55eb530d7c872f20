//! Link settings of the program: a fixed load address if the linker decides it (glibc), as `dev/release` sets
//! it for musl.
//!
//! A position-independent program has 30,000 addresses to relocate at each start, in 130 pages that the
//! keeper, the daemon and the command would each have as private copies. `docs/SECURITY.md` describes the
//! security cost.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
