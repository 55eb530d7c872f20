//! The classic BPF programs that choose a member of a reuseport group for each new connection.
//!
//! A program runs once per SYN and returns a member's index. It needs no privilege, and a replacement takes
//! effect with the next SYN. If the index is out of range, the kernel uses its hash of the 4-tuple.

use std::io;
use std::os::fd::BorrowedFd;

use crate::bpf::{alu, attach as attach_program, instruction, jump_if_equal, load_word, ret, sock_filter};

/// Which members of a group get new connections. Indexes count the members in the order they were added; an
/// index listed twice gets twice the share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// All connections to one member.
    Only(u16),
    /// Each connection to a random listed member, uniformly.
    Random(Vec<u16>),
    /// By the client's address: the same source always gets the same position in the list.
    BySource(Vec<u16>),
    /// Exact round robin over the listed members. Needs `CAP_BPF` and Linux 5.12, otherwise it is an error of
    /// the kind `Unsupported`. The turn is kept when the list changes.
    RoundRobin(Vec<u16>),
}

/// Offset of the client's address in an IPv4 header, and in an IPv6 header.
const IPV4_SOURCE: i32 = 12;
const IPV6_SOURCE: i32 = 8;

/// Attaches the program for `steer` to the group that `socket` belongs to.
pub(super) fn attach(socket: BorrowedFd<'_>, steer: &Steer) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &mut assemble(steer))
}

/// The program for `steer`.
fn assemble(steer: &Steer) -> Vec<sock_filter> {
    let mut program = Vec::new();
    match steer {
        Steer::Only(index) => program.push(ret(u32::from(*index))),
        // Classic programs have no memory, so random is the closest they can do.
        Steer::Random(members) | Steer::RoundRobin(members) => {
            let mut sorted = members.clone();
            // The order does not matter here, and neighbours share instructions.
            sorted.sort_unstable();
            program.push(load_word(libc::SKF_AD_OFF + libc::SKF_AD_RANDOM));
            choose(&mut program, &sorted);
        }
        Steer::BySource(members) => {
            hash_source(&mut program);
            choose(&mut program, members);
        }
    }
    program
}

/// A = A modulo the list's length; returns the list's element at A.
fn choose(program: &mut Vec<sock_filter>, members: &[u16]) {
    if let [only] = members {
        program.push(ret(u32::from(*only)));
        return;
    }
    program.push(alu(libc::BPF_MOD | libc::BPF_K, members.len() as u32));
    branch(program, &runs(members));
}

/// Positions `at..` of a list with consecutive indexes `first..`, or with the same index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    at: u32,
    first: u32,
    length: u32,
    /// Every position has the index `first`.
    same: bool,
}

fn runs(members: &[u16]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, member) in members.iter().enumerate() {
        let member = u32::from(*member);
        match runs.last_mut() {
            Some(run) if !run.same && run.first + run.length == member => run.length += 1,
            Some(run) if (run.same || run.length == 1) && run.first == member => {
                run.length += 1;
                run.same = true;
            }
            _ => runs.push(Run { at: at as u32, first: member, length: 1, same: false }),
        }
    }
    runs
}

/// A binary search over the runs for the run with position A.
fn branch(program: &mut Vec<sock_filter>, runs: &[Run]) {
    if let [run] = runs {
        if run.length == 1 || run.same {
            program.push(ret(run.first));
        } else {
            if run.first != run.at {
                program.push(alu(libc::BPF_ADD | libc::BPF_K, run.first.wrapping_sub(run.at)));
            }
            program.push(instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0));
        }
        return;
    }
    let (low, high) = runs.split_at(runs.len() / 2);
    let Some(pivot) = high.first() else { return };
    let mut lower = Vec::new();
    branch(&mut lower, low);
    let greater_or_equal = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    if let Ok(skip) = u8::try_from(lower.len()) {
        program.push(instruction(greater_or_equal, skip, 0, pivot.at));
    } else {
        // A conditional jump reaches 255 instructions; an unconditional jump reaches any.
        program.push(instruction(greater_or_equal, 0, 1, pivot.at));
        program.push(instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, lower.len() as u32));
    }
    program.append(&mut lower);
    branch(program, high);
}

/// A = a hash of the packet's source address, by the version in the IP header.
fn hash_source(program: &mut Vec<sock_filter>) {
    let xor_x = libc::BPF_XOR | libc::BPF_X;
    // The words of an IPv6 address are folded one by one; A is the result and X the next word.
    let mut v6 = vec![load_word(libc::SKF_NET_OFF + IPV6_SOURCE)];
    for word in 1..4 {
        v6.push(alu(libc::BPF_MUL | libc::BPF_K, 0x85eb_ca6b));
        v6.push(instruction(libc::BPF_ST, 0, 0, 0));
        v6.push(load_word(libc::SKF_NET_OFF + IPV6_SOURCE + 4 * word));
        v6.push(instruction(libc::BPF_LDX | libc::BPF_MEM, 0, 0, 0));
        v6.push(alu(xor_x, 0));
    }
    program.push(instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, libc::SKF_NET_OFF as u32));
    program.push(alu(libc::BPF_RSH | libc::BPF_K, 4));
    program.push(jump_if_equal(6, 2, 0));
    program.push(load_word(libc::SKF_NET_OFF + IPV4_SOURCE));
    program.push(instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, v6.len() as u32));
    program.append(&mut v6);
    // Spreads neighbouring addresses: multiply by an odd constant and fold the high half down, twice (the
    // finaliser of MurmurHash3, public domain).
    for (shift, factor) in [(16, Some(0x85eb_ca6b)), (13, Some(0xc2b2_ae35)), (16, None)] {
        program.push(instruction(libc::BPF_ST, 0, 0, 0));
        program.push(alu(libc::BPF_RSH | libc::BPF_K, shift));
        program.push(instruction(libc::BPF_LDX | libc::BPF_MEM, 0, 0, 0));
        program.push(alu(xor_x, 0));
        if let Some(factor) = factor {
            program.push(alu(libc::BPF_MUL | libc::BPF_K, factor));
        }
    }
}

#[cfg(test)]
mod tests;
