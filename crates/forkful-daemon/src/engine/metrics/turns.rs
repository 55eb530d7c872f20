//! Turns of an app's slots at readings that cost more, so that no look at many processes keeps clients waiting.

/// In one look, at most this many processes have a turn: each takes about 1 ms.
const AT_ONCE: u32 = 16;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The first slot that has a turn in this look.
    from: u16,
    /// The turns of this look.
    taken: u32,
    /// The first slot that was due in this look and had no turn.
    next: Option<u16>,
}

impl Turns {
    /// A look begins, where the look before ended.
    pub(super) fn begin(&mut self) {
        *self = Self { from: self.next.unwrap_or_default(), ..Self::default() };
    }

    /// Whether a process of this slot has a turn now; the slots of a look come in order.
    pub(super) fn take(&mut self, slot: u16, is_due: bool) -> bool {
        if !is_due || slot < self.from {
            return false;
        }
        if self.taken == AT_ONCE {
            self.next.get_or_insert(slot);
            return false;
        }
        self.taken += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_turn_however_many_are_due() {
        let mut turns = Turns::default();
        let mut look = |is_due: fn(u16) -> bool, expected: &[u16]| {
            turns.begin();
            let taken: Vec<u16> = (0..40).filter(|slot| turns.take(*slot, is_due(*slot))).collect();
            assert_eq!(taken, expected);
        };
        let all: Vec<u16> = (0..40).collect();
        look(|_| true, &all[..16]);
        look(|_| true, &all[16..32]);
        look(|_| true, &all[32..]);
        look(|slot| slot % 2 == 1, &[1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31]);
        look(|slot| slot == 5 || slot >= 30, &all[33..]);
        look(|slot| slot == 5, &[5]);
    }
}
