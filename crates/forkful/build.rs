//! How the program is linked: at a fixed address where that is up to the linker (glibc), as `dev/release` has it for musl.
//!
//! A program that can be loaded anywhere has 30,000 addresses to correct at each start, in 130 pages that keeper, daemon and
//! command then each have for themselves. See `docs/SECURITY.md` for what that costs.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
