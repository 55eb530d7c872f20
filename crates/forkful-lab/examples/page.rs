//! Renders a result's JSON (standard input) as its HTML page (standard output). Used by the browser tests of
//! the page, and to render a saved result again.

use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let document: serde_json::Value = serde_json::from_str(&text)?;
    std::io::stdout().write_all(forkful_lab::page::render(&document).as_bytes())?;
    Ok(())
}
