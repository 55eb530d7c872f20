//! Runs the programs in our own interpreter, to cover what a test with the real kernel cannot.

use std::collections::HashSet;
use std::os::fd::AsFd;

use super::*;
use crate::bpf::PROGRAM_MAX;
use crate::listener::{TcpGroup, bind_tcp_shared};

/// Runs a program as the kernel would, with the packet's IP header and one random number.
fn run(program: &[sock_filter], header: &[u8], random: u32) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0_usize);
    let byte = |k: i32| u32::from(header[(k - libc::SKF_NET_OFF) as usize]);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        let (code, branch) = (u32::from(code), |yes: bool| usize::from(if yes { jt } else { jf }));
        at += 1;
        match code {
            c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                let k = k as i32;
                a = if k == libc::SKF_AD_OFF + libc::SKF_AD_RANDOM {
                    random
                } else {
                    (0..4).fold(0, |word, offset| word << 8 | byte(k + offset))
                };
            }
            c if c == libc::BPF_LD | libc::BPF_B | libc::BPF_ABS => a = byte(k as i32),
            c if c == libc::BPF_LDX | libc::BPF_MEM => x = memory[k as usize],
            c if c == libc::BPF_ST => memory[k as usize] = a,
            c if c == libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K => a %= k,
            c if c == libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K => a = a.wrapping_add(k),
            c if c == libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K => a = a.wrapping_mul(k),
            c if c == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => a >>= k,
            c if c == libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X => a ^= x,
            c if c == libc::BPF_JMP | libc::BPF_JA => at += k as usize,
            c if c == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += branch(a == k),
            c if c == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += branch(a >= k),
            c if c == libc::BPF_RET | libc::BPF_K => return k,
            c if c == libc::BPF_RET | libc::BPF_A => return a,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

fn v4(source: [u8; 4]) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[0] = 0x45;
    header[12..16].copy_from_slice(&source);
    header
}

fn v6(source: [u8; 16]) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[8..24].copy_from_slice(&source);
    header
}

/// Lists of every shape: neighbours, gaps, descending, the maximum length.
fn lists() -> Vec<Vec<u16>> {
    vec![
        vec![5],
        vec![0, 1, 2, 3],
        vec![1, 2, 4, 5, 9],
        vec![3, 2, 1, 0],
        vec![7, 7, 8],
        vec![1, 1, 1, 2, 2, 3],
        vec![1, 2, 2, 2, 4, 4, 5, 6],
        (0..1024).collect(),
        (0..1024).rev().collect(),
        (0..1024).map(|n| n * 2).collect(),
    ]
}

#[test]
fn every_random_number_chooses_a_listed_member_and_all_evenly() {
    for list in lists() {
        let program = assemble(&Steer::Random(list.clone()));
        assert!(program.len() <= PROGRAM_MAX, "{}", program.len());
        let mut got: Vec<u16> =
            (0..list.len() as u32).map(|random| run(&program, &[], random) as u16).collect();
        let mut expected = list.clone();
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected);
        assert!(list.contains(&(run(&program, &[], u32::MAX) as u16)));
    }
}

#[test]
fn the_position_of_a_source_depends_on_the_length_of_the_list_alone() {
    for list in lists() {
        let program = assemble(&Steer::BySource(list.clone()));
        let positions = assemble(&Steer::BySource((0..list.len() as u16).collect()));
        for n in 0..200_u8 {
            let header = v4([10, 0, 0, n]);
            let position = run(&positions, &header, 0) as usize;
            assert_eq!(run(&program, &header, u32::from(n)), u32::from(list[position]));
        }
    }
}

#[test]
fn neighbouring_sources_of_both_families_spread_evenly() {
    let program = assemble(&Steer::BySource(vec![0, 1, 2, 3]));
    let sources = 0..4000_u32;
    let by_v4 = sources.clone().map(|n| v4((0x0a00_0000 + n).to_be_bytes()));
    let prefix = 0x2001_0db8_u128 << 96;
    let low = sources.clone().map(|n| v6((prefix + u128::from(n)).to_be_bytes()));
    let middle = sources.clone().map(|n| v6((prefix + (u128::from(n) << 48)).to_be_bytes()));
    let high = sources.map(|n| v6((prefix + (u128::from(n) << 64)).to_be_bytes()));
    for headers in [by_v4.collect::<Vec<_>>(), low.collect(), middle.collect(), high.collect()] {
        let mut counts = [0_u32; 4];
        for header in headers {
            counts[run(&program, &header, 0) as usize] += 1;
        }
        // 1000 expected, standard deviation 27.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
    let all: HashSet<u32> = (0..=255).map(|n| run(&program, &v4([n, 0, 0, 1]), 0)).collect();
    assert_eq!(all.len(), 4);
}

#[test]
fn the_kernel_takes_the_longest_programs() {
    let mut group = TcpGroup::bind("127.0.0.1:0".parse().unwrap(), false, 16).unwrap();
    group.add_member().unwrap();
    for list in lists() {
        attach(group.member(1), &Steer::Random(list.clone())).unwrap();
        attach(group.member(0), &Steer::BySource(list)).unwrap();
    }
    let alone = bind_tcp_shared("127.0.0.1:0".parse().unwrap(), false, 16).unwrap();
    assert!(attach(alone.as_fd(), &Steer::Only(0)).is_err(), "not a member of a group");
}
