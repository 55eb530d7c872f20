//! What happens to an address on which only a leaving worker listens.

/// The state when a worker begins to leave, for an address that no other worker of the app has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastHolder {
    /// Number of addresses on which the leaving worker listens.
    pub listens_on: usize,
    /// Number of addresses on which its successor in the slot listens; `None` if the slot has none, as after
    /// a `scale`.
    pub successor_listens_on: Option<usize>,
    /// Whether any other worker of the app serves.
    pub others_serve: bool,
}

/// Whether the address is closed immediately, so that clients are refused instead of waiting for no one.
///
/// A successor that listens on the same number of addresses has moved, and a slot without a successor will
/// not listen again. A successor that listens on fewer may still open the address (many apps open an
/// administration port later): the address is kept for a while, and so is that of the last worker.
pub fn is_given_up(last: LastHolder) -> bool {
    last.others_serve && last.successor_listens_on.is_none_or(|count| count >= last.listens_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_up_when_nobody_will_listen_on_it_again() {
        let table = [
            (1, Some(1), true, true),
            (1, Some(2), true, true),
            (2, Some(1), true, false),
            (1, Some(0), true, false),
            (1, None, true, true),
            (1, Some(1), false, false),
            (1, None, false, false),
        ];
        for (listens_on, successor_listens_on, others_serve, expected) in table {
            let last = LastHolder { listens_on, successor_listens_on, others_serve };
            assert_eq!(is_given_up(last), expected, "{last:?}");
        }
    }
}
