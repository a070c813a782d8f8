//! The dispatch loops: they move deliveries from the queue to the receivers, and write the results back.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Dispatch`] | the dispatcher: its lanes and destinations; run, wake, stop |
//! | `turns` | gives lanes their turns, checks the gates, claims deliveries |
//! | `destination` | what the requests of one lane need: URL, headers, signer, circuit, throttle, rate limit |
//! | `gates` | the checks before a lane may send: enabled, rate limit, throttle, circuit |
//! | `attempt` | one request, from building it to its settlement |
//! | [`MaintenanceRecords`] | writes records on behalf of dispatch |
//! | [`LaneWaits`] | reports what lanes wait for |
//! | [`OwnOutages`] | detects outages on the gateway's own side, and decides what they excuse |
//! | `own_outage_watch` | acts on their beginning and their end |
//! | `submit` | accepts batches, and dispatches fresh deliveries directly |
//! | [`Scheduler`] | fires reminders when they are due |
//! | `watch` | reacts to changes of tenants, endpoints and circuits |
//! | `maintenance` | reclaims, expires, prunes and resends |
//!
//! The loops decide nothing themselves. [`lanes`](breakerbox_model::delivery::lanes) decides which lane has the next
//! turn, [`ResponseRules`](breakerbox_model::delivery::ResponseRules) what a response means,
//! [`AttemptContext`](breakerbox_model::delivery::AttemptContext) what happens to the delivery next, and the library whether a circuit
//! admits a call.
//!
//! **A slot** is taken when a lane has its turn, and freed when the request has ended. **A lease** is held until the
//! settlement is durable. The number of settlements that are not yet durable is limited; at the limit, no request
//! begins.

mod attempt;
mod destination;
mod dispatcher;
mod gates;
mod maintenance;
mod maintenance_records;
mod own_outage_watch;
mod own_outages;
mod scheduler;
mod submit;
mod turns;
mod waits;
mod watch;

pub use dispatcher::{Dispatch, DispatchSnapshot, Parts, Settings};
pub use maintenance_records::MaintenanceRecords;
pub use own_outage_watch::OutageReport;
pub use own_outages::OwnOutages;
pub use scheduler::Scheduler;
pub use submit::{DirectDispatch, EventSubmitter};
pub use waits::LaneWaits;
pub use watch::Watch;
