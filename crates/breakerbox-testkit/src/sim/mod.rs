//! A simulated fleet: many workers with the real library, many endpoints, one store, and injected faults between them,
//! in virtual time. A seed determines a run: the same seed gives the same run, line by line.
//!
//! | part | what it does |
//! | --- | --- |
//! | `scenario` | the scenario of a seed: workers, endpoints, numbers, faults and their times |
//! | `random`, `faults`, `plans` | how scenarios are drawn: numbers, workers, endpoints; random faults; scenarios around one fault |
//! | `worker`, `caller` | the real library, with a clock that differs from others' by hours, and its callers, polite and rude |
//! | `sampling` | circuits that a leader samples: the table of attempts, faults of leaders, checks |
//! | `gate` | pauses and kills the tasks of one worker, as SIGSTOP and SIGKILL do |
//! | `network` | the connection to the store: slow, lossy, cut, stalled; a sent request travels on after its sender has died |
//! | `checked_store` | the store: a real memory store, which checks every operation as it is applied |
//! | `history`, `verify`, `watch` | the record of what really happened, and its checks: at the store, in observers, at endpoints |
//! | `outcomes`, `due_reports` | the outcomes of all workers, by which trips are checked; the failures that each has to report |
//! | `checks` | checks at certain times of a run |
//! | `bounds` | the time limits that hold once nothing fails any more |
//! | `run`, `many`, `tally` | one run, many runs, and counts of what happened in them |
//! | `sabotage` | faults that are put in on purpose, to see the invariants fail |
//!
//! Injected faults: requests, answers and pushed changes are lost or late; single workers or all are cut off, from
//! their start on, for a moment between two outages, or for longer than an idle record is kept; workers are paused,
//! some for longer than a lease, killed, and restarted without memory; some live for one or a few calls; one worker's
//! own network is broken while endpoints are well or recover; the store stalls, answers reads and refuses writes, is
//! flushed, or fails over and loses its last writes; operators interfere. Workers are local-first or strict, few or
//! many. Where circuits are sampled, leaders are paused, some in the middle of a tick and for longer than their term,
//! killed, or cut off from the store or from the table of attempts, and polls fail or are slow. Then all faults end,
//! and the fleet has to agree again.
//!
//! **Invariants**, checked at every step:
//!
//! | invariant | what holds | seen to fail with |
//! | --- | --- | --- |
//! | [`OneLease`](Invariant::OneLease) | one live lease, and one probe by a lease, for each circuit, as long as the store keeps its writes; none before the cool-off is over; without the store, only workers that lost it probe | a store that hides leases |
//! | [`NoStaleResult`](Invariant::NoStaleResult) | a result is of the lease in the record, from its holder, in time, and as its caller reported it | a store that accepts results whatever became of their lease |
//! | [`NothingLost`](Invariant::NothingLost) | in calm runs, a report carries all failures that were counted before it, and all failures of the last epoch that have to be reported are | a store that drops merges; the library when it discarded counts from before it knew the store's time |
//! | [`NothingDoubled`](Invariant::NothingDoubled) | only counted outcomes are reported, in their epoch, once | a store that merges twice, ignores epochs, keeps windows; a network that repeats; the library when it reported counts of before a decision made alone |
//! | [`NoLateSwap`](Invariant::NoLateSwap) | nothing is written after its deadline; the deadline of a trip or a lease is at most `store_timeout` after the read that it was decided on | a store that ignores deadlines |
//! | [`CompareAndSwap`](Invariant::CompareAndSwap) | a worker replaces only a record that it read; versions are new, epochs grow; a record is written again only if it was lost | a store that ignores versions; the library when it took estimated times for a clock set back |
//! | [`AllAgree`](Invariant::AllAgree) | once nothing fails, no worker is behind the store by more than [`agree_within`](Settings::agree_within), nor ahead of it | a store that reads the past |
//! | [`ClosesInTheEnd`](Invariant::ClosesInTheEnd) | once an endpoint is well, its circuit closes within [`closed_within`](Settings::closed_within) | leases that never end |
//! | [`OverridesHold`](Invariant::OverridesHold) | only operators end an override; every connected worker applies it within `agree_within` | a store that forgets overrides; the library when it wrote an override twice |
//! | [`OneBrokenOpensNothing`](Invariant::OneBrokenOpensNothing) | one worker that reaches no endpoint opens no circuit, unless the outcomes of all workers together break a rule | successes that are not reported; the library, in two ways |
//! | [`StoreLossReported`](Invariant::StoreLossReported) | a worker whose write is refused reports the store as lost within [`reported_within`](Settings::reported_within), until writes succeed again | a store whose check succeeds without a write; the library, when reads counted for writes |
//! | [`RecoversWithoutWrites`](Invariant::RecoversWithoutWrites) | circuits of endpoints that are well close within a bound, although the store can't write | the same |
//! | [`RecoversBesideBroken`](Invariant::RecoversBesideBroken) | the circuit of an endpoint that is well closes within a bound, although one worker's network is broken, and after that worker has failed at most one more probe | processes that do not stand back after a failed probe; the library, which had no other |
//! | [`BrokenIsProtected`](Invariant::BrokenIsProtected) | a worker whose network is broken makes few calls | processes without a process-local circuit; the library, which had none |
//! | [`ObserversHear`](Invariant::ObserversHear) | a worker's observer has received the state that its circuit is in, and no change that did not happen | processes that drop what they decided alone; the library, when publishing had failed once |
//! | [`EpochsGrow`](Invariant::EpochsGrow) | the epoch of a worker's circuit never goes back | the same |
//! | [`StoreTimes`](Invariant::StoreTimes) | times of a new epoch are the store's | processes that publish times of their own clocks; the library, which did |
//! | [`NoStaleRecord`](Invariant::NoStaleRecord) | no record is published again that expired, or that others have left behind, while the store loses nothing | processes that publish what may have expired; the library, which did |
//! | [`RampIsShared`](Invariant::RampIsShared) | after a closing, at most as many calls are in flight over all workers as one ramp allows, and three by races | a store that says every ramp is over; the library, when each process had a ramp of its own |
//! | [`ShortLivedCount`](Invariant::ShortLivedCount) | failures of workers that exit after a few calls open the circuit | exits without the last reports; the library, which had no other |
//! | [`LeaderWritesInTerm`](Invariant::LeaderWritesInTerm) | what a leader writes, it decided in the term that it has when that is written; a leader that lost its term writes nothing | a store that ignores the ends of terms |
//! | [`SampledOpens`](Invariant::SampledOpens) | a sampled circuit opens within a tick, and a change of leaders, once all attempts of the recent ticks failed, however healthy the window is | leaders that judge the window alone; the library, which did |
//! | [`FewProbesPerTick`](Invariant::FewProbesPerTick) | a half-open sampled circuit gives out at most `probes` leases between two ticks, one at a time ([`OneLease`](Invariant::OneLease)), and who knows of it calls with a lease only | half-open circuits without a limit until the tick; the library, which had none |
//! | [`SampledCloses`](Invariant::SampledCloses) | once its endpoint is well and nothing fails, a sampled circuit closes within a bound | a table of attempts that counts what came before a transition |
//!
//! Not required, because it can't be guaranteed: at most one probe after the store lost writes, or beside workers that
//! lost the store and decide alone; a leader within a bound while the answers to the current leader are lost and its
//! requests are not, since it prolongs its term all the time. Not simulated: a store whose clock steps; sampled
//! circuits whose store loses or refuses writes, and operators of sampled circuits.

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
