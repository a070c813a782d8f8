//! A hostile tenant runs one attack on its neighbours after the other, and then all of them at once. A
//! well-behaved tenant is not affected.
//!
//! | item | description |
//! | --- | --- |
//! | [`AttackKind`] | the kinds of attacks |
//! | `attack` | runs the attacks, until it is dropped |
//! | `customer` | the well-behaved tenant: events, permits and test sends at a steady rate |
//! | [`names`] | a gateway for which some host names never resolve |

mod attack;
mod attack_kind;
mod customer;
pub mod names;

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Settings;

use self::attack::Attack;
pub use self::attack_kind::AttackKind;
use self::customer::Customer;
use super::findings::Findings;
use super::site::Site;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of the hostile tenant's endpoints, all of which receive each of its events.
    pub endpoints: usize,
    /// The number of request bodies that the hostile tenant sends slowly at the same time.
    pub slow_bodies: usize,
    /// The number of new keys per second for which the hostile tenant acquires permits.
    pub keys_per_second: u32,
    /// The number of events per second to host names that never resolve.
    pub names_per_second: u32,
    /// The number of connections that the hostile tenant holds open, with or without a request.
    pub connections: usize,
    /// The gateway's connection limit.
    pub most_connections: u32,
    /// How long the attack runs before the well-behaved tenant is measured.
    pub head_start: Duration,
    /// The duration for which the well-behaved tenant is measured, alone and during the attack.
    pub time: Duration,
    /// The number of the well-behaved tenant's events per second.
    pub per_second: f64,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        endpoints: 9_900,
        slow_bodies: 64,
        keys_per_second: 15_000,
        names_per_second: 200,
        connections: 5_000,
        most_connections: 4_096,
        head_start: Duration::from_secs(5),
        time: Duration::from_secs(20),
        per_second: 50.0,
        judged: true,
    };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        endpoints: 200,
        slow_bodies: 32,
        keys_per_second: 1_000,
        names_per_second: 50,
        connections: 600,
        // The customer shares its address with half of the hostile connections: its quarter of the limit must
        // be large enough for its own connections too.
        most_connections: 1_024,
        head_start: Duration::from_millis(500),
        time: Duration::from_secs(2),
        per_second: 20.0,
        judged: false,
    };
}

/// The maximum allowed memory usage of the gateway, in bytes.
const MOST_MEMORY: u64 = 512 << 20;

/// During an attack, the well-behaved tenant's latencies may be longer by this much, or twice as long,
/// whichever is more.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// Returns the combinations of attacks in the full test: each attack alone, then all attacks at once.
#[must_use]
pub fn rows() -> Vec<Vec<AttackKind>> {
    AttackKind::ALL.iter().map(|attack_kind| vec![*attack_kind]).chain([AttackKind::ALL.to_vec()]).collect()
}

/// Returns whether the filter `text` selects this combination of attacks. `all` selects the combination of all
/// attacks, and an empty string selects every combination. Any other string selects the single attacks whose
/// name contains it.
#[must_use]
pub fn is_named(attack_kinds: &[AttackKind], text: &str) -> bool {
    if text == "all" {
        attack_kinds.len() > 1
    } else {
        attack_kinds.iter().any(|attack_kind| attack_kind.name().contains(text))
            && (text.is_empty() || attack_kinds.len() == 1)
    }
}

/// Measures the well-behaved tenant, first alone, then during the attacks.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, attack_kinds: &[AttackKind], size: Size) -> Result<Findings> {
    let settings = Settings::new(program).command("named");
    let settings = settings.flag("--connections", size.most_connections.to_string());
    let site = Site::start(settings, &["customer"])?;
    let customer = Customer::new(&site)?;
    let attack = Attack::prepare(&site, attack_kinds, size)?;
    customer.measure(&site, size.per_second, size.time / 10)?;
    let (alone, calm) = customer.measure(&site, size.per_second, size.time)?;
    let attack = attack.begin()?;
    thread::sleep(size.head_start);
    let (beside, seen) = customer.measure(&site, size.per_second, size.time)?;
    let memory = site.gateway.usage()?.peak;
    let tally = attack.end();

    let names: Vec<&str> = attack_kinds.iter().map(|attack_kind| attack_kind.name()).collect();
    let trouble =
        if names.len() == AttackKind::ALL.len() { "all at once".to_owned() } else { names.join(", ") };
    let mut findings = Findings::new(format!("neighbours: a hostile tenant: {trouble}"));
    findings.note("what it was answered", tally);
    alone.compare(&beside, "it", OR_LONGER_BY, size.judged, &mut findings);
    alone.compare_accepts(&beside, "it", OR_LONGER_BY, size.judged, &mut findings);
    let refused = alone.refused.iter().chain(&beside.refused).chain(&calm.refused).chain(&seen.refused);
    let refused: Vec<_> = refused.cloned().collect();
    findings.hold("refusals of the other tenant", refused.join("; "), "none", refused.is_empty());
    findings.note("its permits and test sends", seen.answered);
    findings.exactly("its requests that were made twice or failed", customer.failed(&site)?, 0);
    findings.exactly("failures in its circuit", customer.failures_counted(&site)?, 0);
    findings.at_most("memory of the gateway, MiB", memory >> 20, MOST_MEMORY >> 20);
    Ok(findings)
}
