//! Pseudo-random numbers from a seed, for jitter. The seed is an argument, so that the same events give the same decisions.

/// A generator of the family xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        // The state 0 would stay 0.
        Self(seed | 1)
    }

    /// The next number, uniform in 0..1.
    pub fn draw(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
