//! The dispatch loops: they move deliveries from the queue to the receivers, and write the results back.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Dispatch`] | the dispatcher: lanes and destinations; run, wake, stop |
//! | `turns` | gives lanes their turns, checks the gates, claims rows |
//! | `destination` | what the requests of one lane need: URL, headers, signer, circuit, throttle, rate limit |
//! | `gates` | checked for a lane before a row is claimed: enabled, rate limit, throttle, circuit |
//! | `attempt` | one request, from building it to its settlement |
//! | [`Chores`] | the writes that dispatch delegates to the records |
//! | [`LaneHolds`] | reports which due deliveries are held back |
//! | `intake` | accepts batches, and dispatches fresh deliveries directly |
//! | [`Scheduler`] | fires reminders when they are due |
//! | `watch` | reacts to changed tenants, endpoints and circuits |
//! | `upkeep` | maintenance: reclaim, expire, prune, resend, history |
//!
//! The loops decide nothing themselves. [`lanes`](breakerbox_model::delivery::lanes) decides which lane has the next
//! turn, [`Rulings`](breakerbox_model::delivery::Rulings) what a response means,
//! [`Tried`](breakerbox_model::delivery::Tried) what happens to the delivery next, and the library whether a circuit
//! admits a call.
//!
//! **A slot** is taken when a lane has its turn, and freed when the request has ended. **A lease** is held until the
//! settlement is durable. The number of settlements that are not yet durable is bounded; at the bound, no request
//! begins.

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
