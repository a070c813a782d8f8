//! Throttles in front of a simulated backend, in virtual time.
//!
//! | item | description |
//! | --- | --- |
//! | [`Scenario`] | a scenario file: the load, the backend, the targets |
//! | `arrivals` | when calls arrive, from which client, with which priority |
//! | `backend` | the responses to the calls that are sent |
//! | `gate` | what decides which calls are sent: nothing, a throttle, or the oracle |
//! | [`simulate`] | one run: one scenario, one kind of admission control, one seed |
//! | [`Measures`] | the measurements of a run |
//! | [`prove`](prove()) | runs all scenarios with many seeds, and compares them with their targets |
//!
//! A run is deterministic: it depends only on its scenario, its admission control and its seed.

mod arrivals;
mod backend;
mod gate;
mod measures;
mod prove;
mod run;
mod scenario;
mod target;

pub use gate::GateKind;
pub use measures::Measures;
pub use prove::{Proof, judge, print_proofs, prove};
pub use run::simulate;
pub use scenario::{Scenario, ScenarioError};
pub use target::{Judged, Targets};
