//! A simulated fleet: many workers with the real library, many endpoints, one store, and injected faults
//! between them, in virtual time. A seed determines a run: the same seed gives the same trace, line by line.
//!
//! | module | description |
//! | --- | --- |
//! | `scenario` | the scenario for a seed: workers, endpoints, numbers, faults and their times |
//! | `random`, `faults`, `plans` | how scenarios are generated: numbers, workers, endpoints; random faults; scenarios around one fault |
//! | `worker`, `caller` | the real library, with a clock that differs from the others by hours, and its callers, some of which break the rules |
//! | `sampling` | circuits that a leader samples: the table of attempts, leader faults, checks |
//! | `gate` | pauses and kills the tasks of one worker, like SIGSTOP and SIGKILL |
//! | `network` | the connection to the store: slow, lossy, cut, stalled; a request in flight arrives even if its sender has died |
//! | `checked_store` | the store: a real memory store that checks every operation as it is applied |
//! | `history`, `verify`, `watch` | the record of what actually happened, and the checks: at the store, in observers, at endpoints |
//! | `outcomes`, `due_reports` | the outcomes of all workers, against which trips are checked; the failures that each worker must report |
//! | `checks` | checks at certain times in a run |
//! | `bounds` | the time limits that apply once all faults have ended |
//! | `run`, `many`, `tally` | one run, many runs, and statistics about them |
//! | `sabotage` | deliberate faults, with which every invariant fails |
//!
//! Injected faults: requests, responses and pushed changes are lost or late; some or all workers are
//! disconnected, from their start, for a moment between two outages, or for longer than an idle record is kept;
//! workers are paused, some for longer than a lease, killed, and restarted without memory; some live for one or
//! a few calls; one worker's own network is broken while endpoints are healthy or recover; the store stalls,
//! answers reads and refuses writes, is flushed, or fails over and loses its last writes; operators intervene.
//! Workers are local-first or strict, few or many. Where circuits are sampled, leaders are paused, some in the
//! middle of a tick and for longer than their term, killed, or disconnected from the store or from the table of
//! attempts, and polls fail or are slow. Then all faults end, and the fleet must agree again.
//!
//! **Invariants**, checked at every step:
//!
//! | invariant | requirement | fails with |
//! | --- | --- | --- |
//! | [`OneLease`](Invariant::OneLease) | one live lease, and one probe with a lease, for each circuit, as long as the store keeps its writes; none before the cool-off is over; without the store, only workers that lost it probe | a store that hides leases |
//! | [`NoStaleResult`](Invariant::NoStaleResult) | a result belongs to the lease in the record, comes from its holder, in time, and is what its caller reported | a store that accepts results whatever happened to their lease |
//! | [`NothingLost`](Invariant::NothingLost) | in calm runs, a report contains all failures that were counted before it, and all failures in the last epoch that must be reported are reported | a store that drops merges; the library when it discarded counts from before it knew the store's time |
//! | [`NothingDoubled`](Invariant::NothingDoubled) | only counted outcomes are reported, in their epoch, once | a store that merges twice, ignores epochs, keeps windows; a network that duplicates messages; the library when it reported counts from before a decision made while disconnected |
//! | [`NoLateSwap`](Invariant::NoLateSwap) | nothing is written after its deadline; the deadline of a trip or a lease is at most `store_timeout` after the read that it is based on | a store that ignores deadlines |
//! | [`CompareAndSwap`](Invariant::CompareAndSwap) | a worker replaces only a record that it has read; versions are new, epochs grow; a record is written again only if it was lost | a store that ignores versions; the library when it mistook estimated times for a clock that was set back |
//! | [`AllAgree`](Invariant::AllAgree) | once all faults have ended, no worker is behind the store by more than [`agree_within`](Settings::agree_within), nor ahead of it | a store that returns old records |
//! | [`ClosesInTheEnd`](Invariant::ClosesInTheEnd) | once an endpoint is healthy, its circuit closes within [`closed_within`](Settings::closed_within) | leases that never expire |
//! | [`OverridesHold`](Invariant::OverridesHold) | only operators end an override; every connected worker applies it within `agree_within` | a store that forgets overrides; the library when it wrote an override twice |
//! | [`OneBrokenOpensNothing`](Invariant::OneBrokenOpensNothing) | one worker that can't reach any endpoint opens no circuit, unless the outcomes of all workers together break a rule | successes that are not reported; the library, in two ways |
//! | [`StoreLossReported`](Invariant::StoreLossReported) | a worker whose write was refused reports the store as lost within [`reported_within`](Settings::reported_within), until writes succeed again | a store whose check succeeds without a write; the library when it counted reads as writes |
//! | [`RecoversWithoutWrites`](Invariant::RecoversWithoutWrites) | circuits of healthy endpoints close within a time limit, even if the store refuses writes | the same |
//! | [`RecoversBesideBroken`](Invariant::RecoversBesideBroken) | the circuit of a healthy endpoint closes within a time limit, even if one worker's network is broken, and after that worker has failed at most one more probe | processes that do not let others probe first after a failed probe; the library before it had this rule |
//! | [`BrokenIsProtected`](Invariant::BrokenIsProtected) | a worker whose network is broken makes few calls | processes without a process-local circuit; the library before it had one |
//! | [`ObserversHear`](Invariant::ObserversHear) | a worker's observer has received its circuit's current state, and no change that did not happen | processes that drop decisions made while disconnected; the library after a write had failed once |
//! | [`EpochsGrow`](Invariant::EpochsGrow) | the epoch of a worker's circuit never decreases | the same |
//! | [`StoreTimes`](Invariant::StoreTimes) | the times in a new epoch are the store's | processes that write times from their own clocks; earlier versions of the library |
//! | [`NoStaleRecord`](Invariant::NoStaleRecord) | no record is written again that expired, or that others have replaced, while the store loses nothing | processes that write records that may have expired; earlier versions of the library |
//! | [`RampIsShared`](Invariant::RampIsShared) | after a circuit closes, all workers together have at most as many calls in flight as one ramp allows, plus three because of races | a store that reports every ramp as over; the library when each process had its own ramp |
//! | [`ShortLivedCount`](Invariant::ShortLivedCount) | failures in workers that exit after a few calls open the circuit | exits without the last reports; earlier versions of the library |
//! | [`LeaderWritesInTerm`](Invariant::LeaderWritesInTerm) | a leader decided what it writes in the term that it has when it writes; a leader that lost its term writes nothing | a store that ignores the ends of terms |
//! | [`SampledOpens`](Invariant::SampledOpens) | a sampled circuit opens within a tick, and a change of leaders, once all attempts in the recent ticks failed, however healthy the window is | leaders that check only the whole window; earlier versions of the library |
//! | [`FewProbesPerTick`](Invariant::FewProbesPerTick) | a half-open sampled circuit grants at most `probes` leases between two ticks, one at a time ([`OneLease`](Invariant::OneLease)), and workers that know of it call only with a lease | half-open circuits without a limit until the tick; earlier versions of the library |
//! | [`SampledCloses`](Invariant::SampledCloses) | once its endpoint is healthy and all faults have ended, a sampled circuit closes within a time limit | a table of attempts that counts what came before a transition |
//!
//! Not required, because it can't be guaranteed: at most one probe after the store lost writes, or while some
//! workers are disconnected from the store; a leader within a time limit while the current leader's responses
//! are lost but its requests are not, since it keeps renewing its term. Not simulated: a store whose clock
//! steps; sampled circuits whose store loses or refuses writes, and operators of sampled circuits.

mod bounds;
mod caller;
mod checked_store;
mod checks;
mod due_reports;
mod faults;
mod gate;
mod history;
mod many;
mod network;
mod outcomes;
mod plans;
mod random;
mod run;
mod sabotage;
mod sampling;
mod scenario;
mod tally;
mod verify;
mod watch;
mod worker;
mod world;

pub use self::bounds::Settings;
pub use self::history::{Invariant, Violation};
pub use self::many::{Summary, run_many};
pub use self::run::{Report, run};
pub use self::sabotage::Sabotage;
pub use self::scenario::{Flavour, Scenario};
pub use self::tally::Tally;
