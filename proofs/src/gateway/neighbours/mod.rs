//! A hostile tenant does one thing after the other that could hurt its neighbours, and then all of them at once. A well-behaved
//! tenant does not notice.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Way`] | what the hostile tenant does |
//! | `attack` | does it, until it is dropped |
//! | `customer` | the well-behaved tenant: events, permits and test sends at a steady pace |
//! | [`names`] | a gateway for which some names never resolve |

mod attack;
mod customer;
pub mod names;
mod way;

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Settings;

use self::attack::Attack;
use self::customer::Customer;
pub use self::way::Way;
use super::findings::Findings;
use super::site::Site;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Endpoints of the hostile tenant: each of its events goes to all of them.
    pub endpoints: usize,
    /// Bodies that it sends slowly, at once.
    pub slow_bodies: usize,
    /// Keys that it asks permits for, in a second.
    pub keys_per_second: u32,
    /// Names that never resolve, in a second.
    pub names_per_second: u32,
    /// Connections without a request, or with one, that it holds.
    pub connections: usize,
    /// How many connections the gateway takes.
    pub most_connections: u32,
    /// How long it has before the other one is looked at.
    pub head_start: Duration,
    /// For how long the well-behaved one is looked at, alone and beside it.
    pub time: Duration,
    /// Events of the well-behaved one in a second.
    pub per_second: f64,
    /// Whether times are judged.
    pub judged: bool,
}

impl Size {
    /// What is promised.
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
    /// A small part.
    pub const SMALL: Self = Self {
        endpoints: 200,
        slow_bodies: 32,
        keys_per_second: 1_000,
        names_per_second: 50,
        connections: 600,
        // The customer shares its address with half of the hostile connections: a quarter must have room for its own.
        most_connections: 1_024,
        head_start: Duration::from_millis(500),
        time: Duration::from_secs(2),
        per_second: 20.0,
        judged: false,
    };
}

/// The most memory that the gateway may take.
const MOST_MEMORY: u64 = 512 << 20;

/// How much longer than alone it may take, if that is more than twice as long.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// The ways to try in full: each alone, then all at once.
#[must_use]
pub fn rows() -> Vec<Vec<Way>> {
    Way::ALL.iter().map(|way| vec![*way]).chain([Way::ALL.to_vec()]).collect()
}

/// Whether this row has a way with this text in its name; `all` is the row with all of them.
#[must_use]
pub fn is_named(ways: &[Way], text: &str) -> bool {
    if text == "all" {
        ways.len() > 1
    } else {
        ways.iter().any(|way| way.name().contains(text)) && (text.is_empty() || ways.len() == 1)
    }
}

/// Looks at the well-behaved tenant alone, then beside the hostile one.
///
/// # Errors
/// If the proof itself can't be made.
pub fn prove(program: &Path, ways: &[Way], size: Size) -> Result<Findings> {
    let settings = Settings::new(program).command("named");
    let settings = settings.flag("--connections", size.most_connections.to_string());
    let site = Site::start(settings, &["customer"])?;
    let customer = Customer::new(&site)?;
    let attack = Attack::prepare(&site, ways, size)?;
    customer.measure(&site, size.per_second, size.time / 10)?;
    let (alone, calm) = customer.measure(&site, size.per_second, size.time)?;
    let attack = attack.begin()?;
    thread::sleep(size.head_start);
    let (beside, seen) = customer.measure(&site, size.per_second, size.time)?;
    let memory = site.gateway.usage()?.peak;
    let tally = attack.end();

    let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
    let trouble = if names.len() == Way::ALL.len() { "all at once".to_owned() } else { names.join(", ") };
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
