//! Tests of the gateway as it runs in production: a separate process, under load, with injected faults.
//!
//! | module | guarantee or content |
//! | --- | --- |
//! | [`kills`] | `kill -9` under load: no event is lost |
//! | [`powercut`] | a power failure under load: no event is lost, the database is intact |
//! | [`sigterm`] | `SIGTERM` under load: the gateway shuts down cleanly, no event is lost or sent twice |
//! | [`isolation`], [`crowd`], [`large_tenant`] | one dead endpoint, thousands of them, or a tenant with a million events: other tenants are not affected |
//! | [`neighbours`] | a hostile tenant, with every known attack: other tenants are not affected |
//! | [`decisions`] | the decision API under load: rate, latency and CPU; one probe at a time |
//! | [`first_failures`] | endpoints that fail from the first request: the circuit opens in time, the throttle does not delay deliveries for long |
//! | [`backlog`] | a million parked deliveries cost nothing |
//! | [`drain`] | a recovering endpoint is not overloaded |
//! | [`hostile`], [`clients`] | with any receiver, attempts end in time and memory usage stays small; with any request, the client gets an error that states what is wrong |
//! | [`disk`], [`quota`] | a full disk or a full backlog: the gateway refuses with a reason, and keeps working |
//! | [`own_faults`] | local faults: no receiver is blamed, and the gateway recovers automatically |
//! | [`own_network`] | the gateway's own network is away: no tenant is notified, no circuit is disabled, and all lanes flow soon after the return |
//! | [`reminders`] | reminders: on time, cheap, never lost, limited per tenant, all counted |
//! | [`notifications`] | a flapping endpoint: few messages, which report every trip once |
//! | [`recovery_lag`] | short and long outages of receivers, and of some among thousands: deliveries flow again soon after |
//! | `site`, `network`, `tls` | a gateway and a receiver for a test; a network that can fail; receivers with faulty TLS |
//! | [`clock_file`] | a wall clock that a test sets while a gateway runs |
//! | [`lossy_gateway`] | a gateway that stores nothing, to check that the tests detect it |
//! | [`findings`], [`ledger`], [`seed`] | the result of a test; the state of every accepted event; random choices by seed |
//!
//! The program under test is this package's own binary: called with `serve`, it is the gateway, so it is never
//! outdated.

pub mod backlog;
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
pub mod lossy_gateway;
pub mod neighbours;
mod network;
pub mod notifications;
pub mod own_faults;
pub mod own_network;
pub mod powercut;
pub mod quota;
pub mod recovery_lag;
pub mod reminders;
pub mod seed;
pub mod sigterm;
mod site;
mod tls;
