//! Loops without decisions: they move deliveries from the queue to the receivers and back.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Dispatch`] | the heart: what is known of lanes and destinations; run, wake, stop |
//! | `turns` | lanes get their turns, gates are asked, rows are claimed |
//! | `destination` | what the requests of one lane need: URL, headers, signer, circuit, throttle, rate |
//! | `gates` | asked for a lane before a row is claimed: enabled, rate, throttle, circuit |
//! | `attempt` | one request from its making to its settlement |
//! | [`Chores`] | what it has others write down |
//! | [`LaneHolds`] | which deliveries are held though they are due |
//! | `intake` | accepts batches, and takes fresh deliveries at once |
//! | [`Scheduler`] | fires reminders when they are due |
//! | `watch` | hears of changed tenants, endpoints and circuits |
//! | `upkeep` | what is done now and then: reclaim, expire, prune, resend, history |
//!
//! What is decided is decided elsewhere: whose turn it is in [`lanes`](breakerbox_model::delivery::lanes), what a reply means in
//! [`Rulings`](breakerbox_model::delivery::Rulings), what comes next in [`Tried`](breakerbox_model::delivery::Tried), whether a circuit lets a call
//! through in the library.
//!
//! **A slot** is taken when a lane has its turn, and is free again when the request has ended. **A lease** is held until the
//! settlement is durable. What is settled and not yet durable is bounded; beyond it, no request begins.

mod attempt;
mod chores;
mod destination;
mod dispatcher;
mod gates;
mod holds;
mod intake;
mod schedule;
mod turns;
mod upkeep;
mod watch;

pub use chores::Chores;
pub use dispatcher::{Dispatch, Parts, Seen, Settings};
pub use holds::LaneHolds;
pub use intake::{Intake, Taker};
pub use schedule::Scheduler;
pub use watch::Watch;
