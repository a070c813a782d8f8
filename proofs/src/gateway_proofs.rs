//! The gateway tests (`cargo xtask prove kills`, `powercut`, ...), which run against a gateway process, in full
//! or in part.

use std::path::Path;

use anyhow::{Result, bail};
use breakerbox_proofs::fleet::{RecoveryLagSize, prove_recovery_lag};
use breakerbox_proofs::gateway::findings::Findings;
use breakerbox_proofs::gateway::reminders::{burst, counters, future, kills as reminder_kills, limits};
use breakerbox_proofs::gateway::{
    backlog, clients, crowd, decisions, disk, drain, first_failures, hostile, isolation, kills, large_tenant,
    neighbours, notifications, own_faults, own_network, powercut, quota, recovery_lag, sigterm,
};
use breakerbox_testkit::gateway::Settings;
use clap::{Args, Subcommand, ValueEnum};
use tokio::runtime::Runtime;

#[derive(Subcommand)]
pub(crate) enum Proof {
    /// Kill the gateway with SIGKILL under load, 100 times
    Kills(Seeded),
    /// Simulate a power failure of the gateway under load, 100 times
    Powercut(Seeded),
    /// Stop the gateway with SIGTERM under load
    Sigterm(Seeded),
    /// Check that dead endpoints or a tenant with a million events do not affect other tenants
    Isolation(Isolation),
    /// Check that a hostile tenant does not affect other tenants
    Neighbours(Rows),
    /// Measure rate, latency and CPU time of the decision API under load, and check that only one probe runs at
    /// a time
    Decisions(Part),
    /// Check that circuits open in time for new endpoints that fail from the first request
    FirstFailures(Part),
    /// Check that a million parked deliveries cost nothing
    Backlog(Part),
    /// Check that an endpoint that recovers with 100,000 parked deliveries is not overloaded
    RecoveryDrain(Part),
    /// Run the gateway against hostile receivers and hostile clients
    Hostile(Part),
    /// Fill the disk and a tenant's backlog, and check which events the gateway rejects
    Diskfull(Part),
    /// Cause local faults (no file descriptors, a pause, a clock correction), let receivers close connections,
    /// and check that no receiver is blamed
    OwnFaults(Only),
    /// Take the gateway's own network away under traffic, and check that no tenant is notified, no circuit is
    /// disabled, and all lanes flow soon after the return
    OwnNetwork(OnlyNetwork),
    /// Let destinations of a gateway and of a fleet fail for 0.3 to 60 s in many ways, and check that calls flow
    /// again soon after
    RecoveryLag(RecoveryLag),
    /// Check that 100,000 reminders due at once start on time, within their limits, and do not affect other traffic
    RemindersBurst(Part),
    /// Check that a million reminders that are not due cost nothing
    RemindersFuture(Part),
    /// Kill the gateway with SIGKILL while reminders fire, 100 times
    ReminderKills(Seeded),
    /// Check that the circuit for a tenant's reminders opens as soon as the tenant exceeds its limits, and that
    /// missed reminders fire after the recovery
    TenantLimits(Part),
    /// Check that every callback is counted in its circuit's window
    Counters(Part),
    /// Check that 50 trips of an endpoint in a minute result in few notifications, even across a SIGKILL
    Notifications(Part),
}

#[derive(Args)]
pub(crate) struct Seeded {
    /// Seed for all random choices; the same seed gives the same choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of repetitions; by default as many as the guarantee requires
    #[arg(long)]
    times: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Part {
    /// Run at about a twentieth of the full size, as `cargo test` does
    #[arg(long)]
    small: bool,
}

#[derive(Args)]
pub(crate) struct Rows {
    #[command(flatten)]
    part: Part,
    /// Run only the attacks whose name contains this string, such as permits, one at a time; `all` runs all
    /// attacks at once
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
pub(crate) struct Isolation {
    #[command(flatten)]
    part: Part,
    /// Run only the parts whose name contains this string: one, crowd, large-tenant
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
pub(crate) struct Only {
    #[command(flatten)]
    part: Part,
    /// Run only the faults whose name contains this string: descriptors, pause, ends, clock
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
pub(crate) struct RecoveryLag {
    #[command(flatten)]
    part: Part,
    /// Run only this part
    #[arg(long, value_enum)]
    only: Option<LagPart>,
}

/// The parts of `recovery-lag` that can be run separately.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LagPart {
    /// Deliveries of an embedded gateway
    Gateway,
    /// Calls through the library in eight processes, over Redis
    Fleet,
    /// Deliveries to endpoints that recover among thousands that hang
    Crowd,
}

#[derive(Args)]
pub(crate) struct OnlyNetwork {
    #[command(flatten)]
    part: Part,
    /// Run only the faults whose name contains this string: refused, dropped
    #[arg(long, default_value = "")]
    only: String,
}

/// A test that is ready to run.
type Tried<'a> = Box<dyn FnOnce() -> Result<Findings> + 'a>;

impl Proof {
    pub(crate) fn run(self) -> Result<()> {
        let program = std::env::current_exe()?;
        let proofs = self.proofs(&program);
        let mut faults = Vec::new();
        for proof in proofs {
            let findings = proof()?;
            println!("{findings}");
            faults.extend(findings.faults());
        }
        if !faults.is_empty() {
            bail!("promises were broken:\n{}", faults.join("\n"));
        }
        Ok(())
    }

    fn proofs(self, program: &Path) -> Vec<Tried<'_>> {
        match self {
            Self::Kills(Seeded { seed, times }) => {
                let mut size = kills::Size::FULL;
                size.kills = times.unwrap_or(size.kills);
                vec![Box::new(move || kills::prove(&Settings::new(program), size, seed))]
            }
            Self::Powercut(Seeded { seed, times }) => {
                let mut size = powercut::Size::FULL;
                size.cuts = times.unwrap_or(size.cuts);
                vec![Box::new(move || powercut::prove(&Settings::new(program), size, seed))]
            }
            Self::Sigterm(Seeded { seed, times }) => {
                let mut size = sigterm::Size::FULL;
                size.stops = times.unwrap_or(size.stops);
                vec![Box::new(move || sigterm::prove(&Settings::new(program), size, seed))]
            }
            Self::Isolation(Isolation { part, only }) => {
                let mut proofs: Vec<(&str, Tried<'_>)> = vec![
                    ("one", {
                        let size = part.of(isolation::Size::FULL, isolation::Size::SMALL);
                        Box::new(move || isolation::prove(program, size))
                    }),
                    ("crowd", {
                        let size = part.of(crowd::Size::FULL, crowd::Size::SMALL);
                        Box::new(move || crowd::prove(program, size))
                    }),
                    ("large-tenant", {
                        let size = part.of(large_tenant::Size::FULL, large_tenant::Size::SMALL);
                        Box::new(move || large_tenant::prove(program, size))
                    }),
                ];
                proofs.retain(|(name, _)| name.contains(&*only));
                proofs.into_iter().map(|(_, proof)| proof).collect()
            }
            Self::Neighbours(Rows { part, only }) => {
                let size = part.of(neighbours::Size::FULL, neighbours::Size::SMALL);
                let rows = neighbours::rows()
                    .into_iter()
                    .filter(move |attack_kinds| neighbours::is_named(attack_kinds, &only));
                rows.map(|attack_kinds| {
                    Box::new(move || neighbours::prove(program, &attack_kinds, size)) as Tried<'_>
                })
                .collect()
            }
            Self::Decisions(part) => {
                let size = part.of(decisions::Size::FULL, decisions::Size::SMALL);
                vec![Box::new(move || decisions::prove(program, size))]
            }
            Self::FirstFailures(part) => {
                let size = part.of(first_failures::Size::FULL, first_failures::Size::SMALL);
                vec![
                    Box::new(move || first_failures::events(program, size)),
                    Box::new(move || first_failures::reminders(program, size)),
                ]
            }
            Self::Backlog(part) => {
                let size = part.of(backlog::Size::FULL, backlog::Size::SMALL);
                vec![Box::new(move || backlog::prove(program, size))]
            }
            Self::RecoveryDrain(part) => {
                let size = part.of(drain::Size::FULL, drain::Size::SMALL);
                vec![Box::new(move || drain::prove(program, size))]
            }
            Self::Hostile(part) => {
                let size = part.of(hostile::Size::FULL, hostile::Size::SMALL);
                vec![
                    Box::new(move || hostile::prove(program, size)),
                    Box::new(move || clients::prove(program)),
                ]
            }
            Self::Diskfull(part) => {
                let sizes = part.of(disk::Size::FULL, disk::Size::SMALL);
                let disks = sizes.map(|size| Box::new(move || disk::prove(program, size)) as Tried<'_>);
                disks.into_iter().chain([Box::new(move || quota::prove(program)) as Tried<'_>]).collect()
            }
            Self::OwnFaults(Only { part, only }) => {
                let size = part.of(own_faults::Size::FULL, own_faults::Size::SMALL);
                let cases = own_faults::Case::ALL.into_iter().filter(move |case| case.name().contains(&only));
                cases
                    .map(|case| Box::new(move || own_faults::prove(program, case, size)) as Tried<'_>)
                    .collect()
            }
            Self::OwnNetwork(OnlyNetwork { part, only }) => {
                let size = part.of(own_network::Size::FULL, own_network::Size::SMALL);
                let cases =
                    own_network::Case::ALL.into_iter().filter(move |case| case.name().contains(&only));
                cases
                    .map(|case| Box::new(move || own_network::prove(program, case, size)) as Tried<'_>)
                    .collect()
            }
            Self::RecoveryLag(RecoveryLag { part, only }) => {
                let is_wanted = |part| only.is_none_or(|only| only == part);
                let mut proofs: Vec<Tried<'_>> = Vec::new();
                if is_wanted(LagPart::Gateway) {
                    let size = part.of(recovery_lag::Size::FULL, recovery_lag::Size::SMALL);
                    for &outage in size.outages {
                        proofs.push(Box::new(move || recovery_lag::prove(program, outage, size)));
                    }
                }
                if is_wanted(LagPart::Fleet) {
                    let size = part.of(RecoveryLagSize::FULL, RecoveryLagSize::SMALL);
                    for &outage in size.outages {
                        proofs.push(Box::new(move || {
                            Runtime::new()?.block_on(prove_recovery_lag(program, outage, size))
                        }));
                    }
                }
                if is_wanted(LagPart::Crowd) {
                    let size = part.of(recovery_lag::crowd::Size::FULL, recovery_lag::crowd::Size::SMALL);
                    proofs.push(Box::new(move || recovery_lag::crowd::prove(program, size)));
                }
                proofs
            }
            Self::RemindersBurst(part) => {
                let size = part.of(burst::Size::FULL, burst::Size::SMALL);
                vec![Box::new(move || burst::prove(program, size))]
            }
            Self::RemindersFuture(part) => {
                let size = part.of(future::Size::FULL, future::Size::SMALL);
                vec![Box::new(move || future::prove(program, size))]
            }
            Self::ReminderKills(Seeded { seed, times }) => {
                let full = reminder_kills::Size::FULL;
                let size = times.map_or(full, |times| full.with_kills(times));
                vec![Box::new(move || reminder_kills::prove(program, size, seed))]
            }
            Self::TenantLimits(part) => {
                let sizes = part.of(limits::Size::FULL, limits::Size::SMALL);
                sizes.map(|size| Box::new(move || limits::prove(program, size)) as Tried<'_>).into()
            }
            Self::Counters(part) => {
                let size = part.of(counters::Size::FULL, counters::Size::SMALL);
                vec![Box::new(move || counters::prove(program, size))]
            }
            Self::Notifications(part) => {
                let sizes = if part.small {
                    notifications::Size::SMALL.to_vec()
                } else {
                    notifications::Size::FULL.to_vec()
                };
                let tried = |size| Box::new(move || notifications::prove(program, size)) as Tried<'_>;
                sizes.into_iter().map(tried).collect()
            }
        }
    }
}

impl Part {
    fn of<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }
}
