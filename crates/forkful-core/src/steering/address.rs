//! What becomes of an address that only a leaving worker listens on.

/// What is known when a worker begins to leave, about an address that no other worker of the app holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastHolder {
    /// On how many addresses the leaving worker listens.
    pub listens_on: usize,
    /// On how many its successor in the slot listens; `None` when the slot has none, as after a `scale`.
    pub successor_listens_on: Option<usize>,
    /// Whether any other worker of the app serves.
    pub others_serve: bool,
}

/// Whether the address is given up at once, so that clients are refused instead of waiting for nobody.
///
/// A successor that listens on as many addresses has moved, and a slot without a successor will not listen again. One
/// that listens on fewer may still open the address (many apps open a port for administrators later): it is kept for
/// a while, and so is that of the last worker.
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
