//! A timer with a descriptor, for a [`crate::reactor::Reactor`]: exact to microseconds, while an event loop's
//! own timers are exact to milliseconds.

#[cfg(not(target_os = "linux"))]
mod by_kqueue;
#[cfg(target_os = "linux")]
mod by_timerfd;

#[cfg(not(target_os = "linux"))]
pub use by_kqueue::Timer;
#[cfg(target_os = "linux")]
pub use by_timerfd::Timer;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;
    use crate::reactor::{Interest, Reactor};

    #[test]
    fn it_fires_once_each_time_it_is_set_and_never_when_it_is_not() {
        let reactor = Reactor::new().unwrap();
        let timer = Timer::new().unwrap();
        reactor.add(timer.as_fd(), 7, Interest::READ | Interest::EDGE).unwrap();
        let mut events = Vec::new();
        for after in [Duration::ZERO, Duration::from_micros(300)] {
            timer.set(Some(after)).unwrap();
            reactor.wait(&mut events, None).unwrap();
            assert_eq!(events.drain(..).map(|event| event.token).collect::<Vec<_>>(), [7]);
            reactor.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert!(events.is_empty());
        }
        timer.set(Some(Duration::from_micros(1))).unwrap();
        timer.set(None).unwrap();
        reactor.wait(&mut events, Some(Duration::from_millis(2))).unwrap();
        assert!(events.is_empty());
    }
}
