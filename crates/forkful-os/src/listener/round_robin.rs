//! Exact round robin in the kernel: an eBPF program that gives each new connection to the next member of a
//! list.
//!
//! Needs `CAP_BPF` and Linux 5.12. The program is assembled by hand, once per group. Changing the list writes
//! one map value and keeps the current turn. Types and instructions: the kernel's `include/uapi/linux/bpf.h`
//! and `Documentation/bpf/standardization/instruction-set.rst`.

use std::ffi::c_long;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::group::MEMBERS_MAX;

const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const MAP_DELETE: c_long = 3;
const PROGRAM_LOAD: c_long = 5;

const MAP_ARRAY: u32 = 2;
const MAP_REUSEPORT_SOCKARRAY: u32 = 20;
const PROGRAM_SK_REUSEPORT: u32 = 21;
/// The default (`BPF_SK_REUSEPORT_SELECT`), and `BPF_SK_REUSEPORT_SELECT_OR_MIGRATE`.
const SELECT: u32 = 0;
const SELECT_OR_MIGRATE: u32 = 40;
/// The word of the program attributes whose upper half is the attach type.
const ATTACH_TYPE_WORD: usize = 8;

const CALL_MAP_LOOKUP: i32 = 1;
const CALL_SELECT_REUSEPORT: i32 = 82;

/// The kernel's attributes union as words; zeros mean "not given".
type Attributes = [u64; 16];

/// The program of one group and its maps.
#[derive(Debug)]
pub(super) struct RoundRobin {
    program: OwnedFd,
    /// The group's sockets by index.
    sockets: OwnedFd,
    /// One value: the length of the list, then its elements.
    list: OwnedFd,
    /// The number of members, from 0, in `sockets`.
    registered: AtomicUsize,
    /// Whether the group runs this program now.
    attached: AtomicBool,
}

impl RoundRobin {
    /// Creates the maps and loads the program.
    pub(super) fn load() -> io::Result<Self> {
        Self::load_as(SELECT)
    }

    /// The same for a program that also chooses where the connections of a closed socket go (Linux 5.14).
    pub(super) fn load_migrating() -> io::Result<Self> {
        Self::load_as(SELECT_OR_MIGRATE)
    }

    fn load_as(attachment: u32) -> io::Result<Self> {
        let sockets = create_map(MAP_REUSEPORT_SOCKARRAY, 8, MEMBERS_MAX as u32)?;
        let list = create_map(MAP_ARRAY, size_of_val(&[0_u32; MEMBERS_MAX + 1]) as u32, 1)?;
        let turn = create_map(MAP_ARRAY, 4, 1)?;
        let program = load(&assemble(turn.as_raw_fd(), list.as_raw_fd(), sockets.as_raw_fd()), attachment)?;
        Ok(Self { program, sockets, list, registered: AtomicUsize::new(0), attached: AtomicBool::new(false) })
    }

    /// Makes `socket`'s group use round robin over the listed members. `members` are all sockets of the
    /// group.
    pub(super) fn steer(&self, members: &[OwnedFd], listed: &[u16]) -> io::Result<()> {
        let before = self.registered.load(Ordering::Relaxed);
        for (index, member) in members.iter().enumerate().skip(before) {
            self.register(index, member.as_fd())?;
            self.registered.store(index + 1, Ordering::Relaxed);
        }
        self.list(listed)?;
        members.first().map_or(Ok(()), |first| self.attach_once(first.as_fd()))
    }

    /// Sets the socket of an index.
    pub(super) fn register(&self, index: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        update(&self.sockets, index as u32, &(socket.as_raw_fd() as u64))
    }

    /// Removes the socket of an index.
    pub(super) fn forget(&self, index: usize) -> io::Result<()> {
        let key = index as u32;
        let mut attributes: Attributes = [0; 16];
        attributes[0] = words(self.sockets.as_raw_fd() as u32, 0);
        attributes[1] = (&raw const key) as u64;
        // SAFETY: the key is valid for its four bytes.
        unsafe { bpf(MAP_DELETE, &attributes) }?;
        Ok(())
    }

    /// Sets the indexes that take turns.
    pub(super) fn list(&self, listed: &[u16]) -> io::Result<()> {
        let mut value = [0_u32; MEMBERS_MAX + 1];
        let length = listed.len().min(MEMBERS_MAX);
        value[0] = length as u32;
        for (place, index) in value[1..].iter_mut().zip(&listed[..length]) {
            *place = u32::from(*index);
        }
        update(&self.list, 0, &value)
    }

    /// Attaches the program to a socket's group, unless it is attached.
    pub(super) fn attach_once(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.attached.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.attach_to(socket)?;
        self.attached.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Attaches the program to a socket's group, replacing any other.
    pub(super) fn attach_to(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        attach(socket, &self.program)
    }

    /// Another program has replaced this one.
    pub(super) fn replaced(&self) {
        self.attached.store(false, Ordering::Relaxed);
    }
}

fn attach(socket: BorrowedFd<'_>, program: &OwnedFd) -> io::Result<()> {
    let number: RawFd = program.as_raw_fd();
    // SAFETY: the option takes a descriptor's number, which is valid for reading.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_EBPF,
            (&raw const number).cast(),
            size_of_val(&number) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A map with 4-byte keys.
fn create_map(kind: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes: Attributes = [0; 16];
    attributes[0] = words(kind, 4);
    attributes[1] = words(value_bytes, entries);
    // SAFETY: no pointers among the attributes.
    let fd = unsafe { bpf(MAP_CREATE, &attributes) }?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets one value; `T` has the size of the map's values and consists of plain integers.
fn update<T: Copy>(map: &OwnedFd, key: u32, value: &T) -> io::Result<()> {
    let mut attributes: Attributes = [0; 16];
    attributes[0] = words(map.as_raw_fd() as u32, 0);
    attributes[1] = (&raw const key) as u64;
    attributes[2] = (&raw const *value) as u64;
    // SAFETY: key and value are valid for as many bytes as the map was made with.
    unsafe { bpf(MAP_UPDATE, &attributes) }?;
    Ok(())
}

fn load(program: &[u64], attachment: u32) -> io::Result<OwnedFd> {
    // No helper that the program calls requires a GPL licence.
    let license = c"MIT";
    let mut attributes: Attributes = [0; 16];
    attributes[0] = words(PROGRAM_SK_REUSEPORT, program.len() as u32);
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    attributes[ATTACH_TYPE_WORD] = words(0, attachment);
    // SAFETY: both pointers are valid for what the kernel reads: the counted instructions, and a C string.
    let fd = unsafe { bpf(PROGRAM_LOAD, &attributes) }?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Two neighbouring 32-bit fields of the attributes.
fn words(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// # Safety
/// Pointers in the attributes must be valid for the command.
unsafe fn bpf(command: c_long, attributes: &Attributes) -> io::Result<RawFd> {
    let size = size_of_val(attributes);
    // SAFETY: the attributes are valid for `size` bytes, and so are their pointers by this function's
    // contract. Maps and programs are close-on-exec by default.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// `turn += 1; select(list[(turn - 1) % list.length])`; the kernel's hash decides if anything is missing.
fn assemble(turn: RawFd, list: RawFd, sockets: RawFd) -> Vec<u64> {
    const STACK: u8 = 10;
    let call = |helper| instruction(0x85, 0, 0, 0, helper);
    let copy = |to, from| instruction(0xbf, to, from, 0, 0);
    // r1 or r2 = the map; takes two slots. Source 1 means that the number is a descriptor.
    let map = |to, fd| [instruction(0x18, to, 1, 0, fd), 0];
    // The key is on the stack, at -4.
    let key = |to| [copy(to, STACK), instruction(0x07, to, 0, 0, -4)];
    let lookup = |fd| [map(1, fd).as_slice(), &key(2), &[call(CALL_MAP_LOOKUP)]].concat();

    let mut program = vec![copy(6, 1), instruction(0x62, STACK, 0, -4, 0)];
    let mut to_end = Vec::new();
    program.extend(lookup(turn));
    to_end.push(program.len());
    program.push(instruction(0x15, 0, 0, 0, 0)); // if r0 == 0 goto end
    program.push(instruction(0xb7, 7, 0, 0, 1)); // r7 = 1
    program.push(instruction(0xc3, 0, 7, 0, 1)); // w7 = fetch and add to the word at r0
    program.extend(lookup(list));
    to_end.push(program.len());
    program.push(instruction(0x15, 0, 0, 0, 0)); // if r0 == 0 goto end
    program.push(instruction(0x61, 8, 0, 0, 0)); // w8 = the length
    to_end.push(program.len());
    program.push(instruction(0x15, 8, 0, 0, 0)); // if r8 == 0 goto end
    program.push(instruction(0x9c, 7, 8, 0, 0)); // w7 %= w8
    to_end.push(program.len());
    program.push(instruction(0x35, 7, 0, 0, MEMBERS_MAX as i32)); // if r7 >= the list's room goto end
    program.push(instruction(0x67, 7, 0, 0, 2)); // r7 <<= 2
    program.push(instruction(0x0f, 0, 7, 0, 0)); // r0 += r7
    program.push(instruction(0x61, 7, 0, 4, 0)); // w7 = the element
    program.push(instruction(0x63, STACK, 7, -4, 0)); // key = w7
    program.push(copy(1, 6));
    program.extend(map(2, sockets));
    program.extend(key(3));
    program.push(instruction(0xb7, 4, 0, 0, 0)); // no flags
    program.push(call(CALL_SELECT_REUSEPORT));
    let end = program.len();
    program.push(instruction(0xb7, 0, 0, 0, 1)); // r0 = SK_PASS
    program.push(instruction(0x95, 0, 0, 0, 0)); // exit
    for at in to_end {
        let [op, registers, ..] = program[at].to_ne_bytes();
        let immediate = i32::from_ne_bytes(program[at].to_ne_bytes()[4..].try_into().unwrap_or_default());
        let distance = (end - at - 1) as i16;
        program[at] = encode(op, registers, distance, immediate);
    }
    program
}

fn instruction(op: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    // The two registers share a byte, in the order of the machine's bit fields.
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    encode(op, registers, offset, immediate)
}

fn encode(op: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    let [o0, o1] = offset.to_ne_bytes();
    let [i0, i1, i2, i3] = immediate.to_ne_bytes();
    u64::from_ne_bytes([op, registers, o0, o1, i0, i1, i2, i3])
}
