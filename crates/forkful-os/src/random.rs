//! Random bytes for secrets.

use std::io;

/// Unpredictable bytes from the kernel's generator.
pub fn secret() -> io::Result<[u8; 32]> {
    let mut bytes = [0_u8; 32];
    // SAFETY: the buffer is ours and has the given length. Up to 256 bytes are always returned in full
    // (getrandom(2)).
    #[cfg(target_os = "linux")]
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // SAFETY: the same; it returns all of them, or an error.
    #[cfg(not(target_os = "linux"))]
    let length = match unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } {
        0 => bytes.len() as isize,
        _ => -1,
    };
    if length == bytes.len() as isize {
        return Ok(bytes);
    }
    Err(if length < 0 { io::Error::last_os_error() } else { io::ErrorKind::UnexpectedEof.into() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_secrets_differ() {
        assert_ne!(super::secret().unwrap(), super::secret().unwrap());
    }
}
