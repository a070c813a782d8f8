//! The gateway, tried as its owner has it: a process of its own, under load, with everything that can befall it.
//!
//! | part | what it proves |
//! | --- | --- |
//! | [`kills`] | `kill -9` under load: nothing is lost |
//! | [`powercut`] | the power is cut under load: nothing is lost, the database is whole |
//! | [`sigterm`] | `SIGTERM` under load: it ends well, nothing is lost or sent twice |
//! | [`isolation`], [`crowd`], [`large_tenant`] | one dead endpoint, thousands of them, or a tenant with a million events: other tenants notice nothing |
//! | [`neighbours`] | a hostile tenant, in every way that it could hurt others: they notice nothing |
//! | [`decisions`] | the decision API under load: rate, latency and CPU; one probe at a time |
//! | [`first_failures`] | endpoints that fail from the first request on: the circuit opens in time, the throttle holds nothing for long |
//! | [`backlog`] | a million parked deliveries cost nothing |
//! | [`drain`] | an endpoint that recovers is not drowned |
//! | [`hostile`], [`clients`] | whatever a receiver does, attempts end in time and memory stays small; whatever a client sends, it is told what is wrong |
//! | [`disk`], [`quota`] | a full disk, a full backlog: refused with a reason, and nothing breaks |
//! | [`own_faults`] | faults on the gateway's own side: no receiver is blamed, and all goes on by itself |
//! | [`reminders`] | reminders: on time, cheap, never lost, held back by tenant, all counted |
//! | [`notices`] | an endpoint that flaps: a few messages, in which every trip is told once |
//! | `site`, `tls` | a gateway and a receiver side by side; receivers whose TLS is wrong |
//! | [`clock_file`] | a wall clock that a proof sets while a gateway runs |
//! | [`careless`] | a gateway that keeps nothing, to see that the proofs notice |
//! | [`findings`], [`ledger`], [`seed`] | what was found; where every accepted event is; what a seed chooses |
//!
//! The program under proof is this package's own: called with `serve` it is the gateway, so it is never an old one.

pub mod backlog;
pub mod careless;
pub mod clients;
pub mod clock_file;
pub mod crowd;
pub mod decisions;
pub mod disk;
pub mod drain;
pub mod findings;
pub mod first_failures;
pub mod hostile;
pub mod isolation;
pub mod kills;
pub mod large_tenant;
pub mod ledger;
pub mod neighbours;
pub mod notices;
pub mod own_faults;
pub mod powercut;
pub mod quota;
pub mod reminders;
pub mod seed;
pub mod sigterm;
mod site;
mod tls;
