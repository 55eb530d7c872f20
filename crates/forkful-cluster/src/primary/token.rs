//! Tokens of a primary's descriptors in the daemon's reactor.

use forkful_dispatch::WorkerId;

/// The lower bits of a token, which belong to the primary; the supervisor owns the others.
pub const TOKEN_BITS: u32 = 44;

const KIND_BIT: u64 = 1 << 43;
const OWN_BIT: u64 = 1 << 42;
const MEMBER_BITS: u32 = 14;
const LISTENING_MASK: u64 = (1 << 28) - 1;
const MEMBER_MASK: u64 = (1 << MEMBER_BITS) - 1;

/// What a ready descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Channel(WorkerId),
    Member {
        listening: usize,
        member: usize,
    },
    /// A socket that a worker has opened itself.
    Own {
        group: usize,
        place: usize,
    },
}

impl Token {
    pub(super) fn encode(self, base: u64) -> u64 {
        let numbers = |group: usize, member: usize| {
            ((group as u64 & LISTENING_MASK) << MEMBER_BITS) | (member as u64 & MEMBER_MASK)
        };
        base | match self {
            Self::Channel(id) => u64::from(id.0),
            Self::Member { listening, member } => KIND_BIT | numbers(listening, member),
            Self::Own { group, place } => KIND_BIT | OWN_BIT | numbers(group, place),
        }
    }

    pub(super) fn decode(token: u64) -> Self {
        if token & KIND_BIT == 0 {
            return Self::Channel(WorkerId(token as u32));
        }
        let group = ((token >> MEMBER_BITS) & LISTENING_MASK) as usize;
        let member = (token & MEMBER_MASK) as usize;
        if token & OWN_BIT == 0 {
            Self::Member { listening: group, member }
        } else {
            Self::Own { group, place: member }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_round_trip() {
        let base = 7 << TOKEN_BITS;
        for token in [
            Token::Channel(WorkerId(0)),
            Token::Channel(WorkerId(u32::MAX)),
            Token::Member { listening: 0, member: 0 },
            Token::Member { listening: (1 << 28) - 1, member: 1024 },
            Token::Own { group: 0, place: 0 },
            Token::Own { group: (1 << 28) - 1, place: 1024 },
        ] {
            let encoded = token.encode(base);
            assert_eq!(encoded >> TOKEN_BITS, 7);
            assert_eq!(Token::decode(encoded), token);
        }
    }
}
