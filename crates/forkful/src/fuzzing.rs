//! Fuzz target of the command: what a client sends to `forkful mcp`.

pub use crate::commands::fuzz_mcp as mcp;

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_mcp() {
        forkful_testkit::replay("mcp", super::mcp);
    }
}
