//! Sampled circuits in a simulated fleet: one table of attempts, leaders that evaluate it, and workers that
//! only check.
//!
//! | module | description |
//! | --- | --- |
//! | `plan` | the random parts of a scenario, and the time limits |
//! | `attempts` | the table of attempts, and the connection to it: slow, failing, cut for one worker |
//! | `caller` | callers: check, call, write the result to the table, settle or forget to |
//! | `history` | the checked facts: terms, leases between ticks, circuits that must open |
//! | `leader` | leader faults |

mod attempts;
mod caller;
mod history;
mod leader;
mod plan;

use std::sync::Arc;

use breakerbox::BreakerboxBuilder;
use breakerbox::sampling::{Sampling, SamplingEvent};

pub(super) use self::attempts::Attempts;
pub(super) use self::caller::Caller;
pub(super) use self::history::SampledHistory;
pub(super) use self::plan::{LeaderFault, SampledPlan};

use self::attempts::Polls;
use super::gate::Gate;
use super::history::WorkerLife;
use super::network::Network;

/// Starts the sampled circuits in one life of a worker (from one start to the next). From now on, the worker is
/// a candidate in the leader election.
pub(super) fn start(
    builder: BreakerboxBuilder,
    plan: &SampledPlan,
    network: &Arc<Network>,
    who: WorkerLife,
    gate: &Arc<Gate>,
    seed: u64,
) -> Sampling {
    let world = Arc::clone(&network.world);
    builder
        .sampling(plan.policy.clone())
        .sampler(Polls::new(network, who, gate, seed))
        .sample_every(plan.sample_every)
        .poll_timeout(plan.poll_timeout)
        .observer(move |event| {
            world.note(|| format!("{who:?} {event:?}"));
            world.write(|history| match event {
                SamplingEvent::Ticked(_) => history.tally.ticks += 1,
                SamplingEvent::PollFailed { .. } => history.tally.failed_polls += 1,
                _ => {}
            });
        })
        .build()
        .expect("the plan is within the bounds of sampling")
}
