//! Sampled circuits in a simulated fleet: one table of attempts, leaders that judge it, and workers that only check.
//!
//! | part | what it does |
//! | --- | --- |
//! | `plan` | what a seed draws for it, and how long things may take |
//! | `attempts` | the table of attempts, and the way to it: slow, failing, cut off for one worker |
//! | `caller` | callers: check, call, write what came of it into the table, settle or forget |
//! | `book` | what is judged: terms, leases between ticks, circuits that must open |
//! | `leader` | what befalls leaders |

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

/// The sampled circuits of one life of a worker, which stands for leader from now on.
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
