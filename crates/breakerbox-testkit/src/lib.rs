//! What Breakerbox is tried with: things that no user needs, and that more than one crate's tests or commands do.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`overload`] | throttles in front of a simulated backend, in virtual time |

pub mod overload;
