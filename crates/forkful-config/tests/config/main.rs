//! Configurations from text to spec, through the crate's public API. One program, so that it is linked once.

#[cfg(test)]
mod any_bytes;
#[cfg(test)]
mod attributes;
#[cfg(test)]
mod changes;
mod check;
#[cfg(test)]
mod common;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod interpreters;
#[cfg(test)]
mod reference;
mod resolve;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod scripts;
