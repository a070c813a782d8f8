//! Tests with fleets of separate processes, over a real store, against a real receiver.
//!
//! | item | description |
//! | --- | --- |
//! | [`Process`] | a test's handle to a worker: send commands, pause, resume, kill |
//! | [`worker`] | the worker itself: the same binary, with its own registry |
//! | [`protocol`] | the protocol between test and worker |
//! | [`Receiver`] | the destination, which records when each request started and ended |
//! | [`Backing`] | the store's server |
//! | [`Site`] | server, receiver, and workers, each with its own connection to the store |
//! | `traffic`, `caller` | a worker's calls: at a fixed rate, or as fast as it can acquire permits |
//! | `watched` | counts how often two processes competed for the same lease |
//! | [`recover`] | recoveries by all processes at once; [`judge`] checks one of them, [`Recoveries`] adds up the results |
//! | [`inject_fault`] | faults of single processes ([`Fault`]), round by round; [`FaultResults`] adds up the results |
//! | [`recover_beside_broken`] | recovery despite a process whose own network is broken |
//! | [`keep_states`] | states that are reached while the store is unreachable are kept |
//! | [`ramp_together`] | the ramp over all processes, as counted by the receiver |
//! | [`run_jobs`] | processes that make one call and exit |
//! | [`prove_recovery_lag`] | short and long outages of destinations: calls flow again soon after |
//! | [`Row`], [`Scale`] | the results of the four before that, and how many rounds of each are run |
//! | `lane` | the common part of all fault tests: three processes, a short cool-off, and a long one after it |
//!
//! A worker is killed when its handle is dropped, and when the test process ends, for any reason.

mod backing;
mod broken_process;
mod caller;
mod fault;
mod fault_results;
mod fleet_ramp;
mod inject_fault;
mod jobs;
mod judge;
mod kept_states;
mod lane;
mod mode;
mod process;
pub mod protocol;
mod receiver;
mod recoveries;
mod recovery_lag;
mod rounds;
mod row;
mod site;
mod traffic;
mod watched;
pub mod worker;

pub use self::backing::{Backing, Kind, Server};
pub use self::broken_process::recover_beside_broken;
pub use self::fault::Fault;
pub use self::fault_results::{FaultResults, inject_fault};
pub use self::fleet_ramp::ramp_together;
pub use self::jobs::{Jobs, run_jobs};
pub use self::judge::{Seen, judge};
pub use self::kept_states::keep_states;
pub use self::mode::Mode;
pub use self::process::{Acquired, Pending, Process, WAIT_LIMIT};
pub use self::receiver::{Behaviour, Receiver, Visit};
pub use self::recoveries::Recoveries;
pub use self::recovery_lag::{Size as RecoveryLagSize, prove_recovery_lag};
pub use self::rounds::{Plan, recover};
pub use self::row::{Row, Scale};
pub use self::site::{Latency, Member, Site, Worker};
