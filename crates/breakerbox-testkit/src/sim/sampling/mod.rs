//! Sampled circuits in a simulated fleet: one table of attempts, leaders that judge it, and workers that only check.
//!
//! | part | what it does |
//! | --- | --- |
//! | `plan` | the random parts of a scenario, and the time limits |
//! | `attempts` | the table of attempts, and the way to it: slow, failing, cut off for one worker |
//! | `caller` | callers: check, call, write the result into the table, settle or forget to |
//! | `book` | the judged facts: terms, leases between ticks, circuits that must open |
//! | `leader` | faults of leaders |

mod attempts;
mod book;
mod caller;
mod leader;
mod plan;

use std::sync::Arc;

use breakerbox::Builder;
use breakerbox::sampling::{News, Sampling};

pub(super) use self::attempts::Attempts;
pub(super) use self::book::SampledBook;
pub(super) use self::caller::Caller;
pub(super) use self::plan::{LeaderFault, SampledPlan};

use self::attempts::Polls;
use super::books::Who;
use super::gate::Gate;
use super::network::Network;

/// Starts the sampled circuits of one life of a worker, which is a candidate for leader from now on.
pub(super) fn start(
    builder: Builder,
    plan: &SampledPlan,
    network: &Arc<Network>,
    who: Who,
    gate: &Arc<Gate>,
    seed: u64,
) -> Sampling {
    let world = Arc::clone(&network.world);
    builder
        .sampling(plan.policy.clone())
        .sampler(Polls::new(network, who, gate, seed))
        .sample_every(plan.sample_every)
        .poll_timeout(plan.poll_timeout)
        .news(move |news| {
            world.note(|| format!("{who:?} {news:?}"));
            world.write(|books| match news {
                News::Ticked(_) => books.tally.ticks += 1,
                News::PollFailed { .. } => books.tally.failed_polls += 1,
                _ => {}
            });
        })
        .build()
        .expect("the plan is within the bounds of sampling")
}
