//! Helpers that overload a throttle.

use std::time::Duration;

use breakerbox::ManualClock;
use breakerbox::throttle::{Priority, Shed, Throttle};

/// Makes a throttle shed calls with this priority, and returns the first refusal.
pub(crate) fn overload<C: 'static>(throttle: &Throttle<C>, clock: &ManualClock, priority: Priority) -> Shed {
    for _ in 0..100_000 {
        clock.advance(Duration::from_millis(1));
        match throttle.try_acquire(priority) {
            Ok(pass) => pass.reject(),
            Err(shed) => return shed,
        }
    }
    panic!("a throttle whose calls are all rejected sheds nothing");
}
