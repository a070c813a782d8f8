//! Throttles in front of a simulated backend, in virtual time.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Scenario`] | a scenario file: who calls, what the backend takes, what is to be reached |
//! | `arrivals` | when calls come, from which client, how important |
//! | `backend` | what becomes of a call that was sent |
//! | `gate` | what lets calls through: nothing, a throttle, the oracle |
//! | [`simulate`] | one run: one scenario, one gate, one seed |
//! | [`Measures`] | what a run is judged by |
//! | [`prove`](prove()) | all scenarios over many seeds, against their targets |
//!
//! A run depends on nothing but its scenario, its gate and its seed.

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
