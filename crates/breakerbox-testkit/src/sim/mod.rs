//! A fleet, simulated: many workers with the real library, many endpoints, one store, and whatever can go wrong between them,
//! in virtual time.

mod arbiter;
mod books;
mod bounds;
mod gate;
mod judge;
mod many;
mod network;
mod run;
mod sabotage;
mod scenario;
mod worker;
mod world;

pub use self::books::{Invariant, Tally, Violation};
pub use self::bounds::Settings;
pub use self::many::{Summary, run_many};
pub use self::run::{Report, run};
pub use self::sabotage::Sabotage;
pub use self::scenario::{Flavour, Scenario};
