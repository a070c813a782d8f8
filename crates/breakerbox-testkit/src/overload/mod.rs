//! Throttles in front of a simulated backend, in virtual time.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Scenario`] | a scenario file: the load, the backend, the targets |
//! | `arrivals` | when calls come, from which client, with which priority |
//! | `backend` | the answers to the calls that are sent |
//! | `gate` | the gate in front of the backend: none, a throttle, the oracle |
//! | [`simulate`] | one run: one scenario, one gate, one seed |
//! | [`Measures`] | the measures of a run |
//! | [`prove`](prove()) | all scenarios over many seeds, against their targets |
//!
//! A run is deterministic: it depends only on its scenario, its gate and its seed.

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
