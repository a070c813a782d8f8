//! `cargo xtask prove kills`, `powercut`, ...: the proofs on a running gateway, in full or at a part.

use std::path::Path;

use anyhow::{Result, bail};
use breakerbox_proofs::gateway::findings::Findings;
use breakerbox_proofs::gateway::reminders::{burst, counters, future, kills as reminder_kills, limits};
use breakerbox_proofs::gateway::{
    backlog, clients, crowd, decisions, disk, drain, first_failures, hostile, isolation, kills, large_tenant,
    neighbours, notices, own_faults, powercut, quota, sigterm,
};
use breakerbox_testkit::gateway::Settings;
use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Proof {
    /// The gateway: kill -9 under load, 100 times
    Kills(Seeded),
    /// The gateway: the power is cut under load, 100 times
    Powercut(Seeded),
    /// The gateway: SIGTERM under load
    Sigterm(Seeded),
    /// The gateway: a dead endpoint, thousands of them, or a tenant with a million events, and others notice nothing
    Isolation(Isolation),
    /// The gateway: a hostile tenant, in every way that it could hurt others, and they notice nothing
    Neighbours(Rows),
    /// The decision API under load: rate, latency and CPU of permits, and one probe at a time
    Decisions(Part),
    /// The gateway: new endpoints that fail from the first request on open their circuits in time
    FirstFailures(Part),
    /// The gateway: a million parked deliveries cost nothing
    Backlog(Part),
    /// The gateway: an endpoint that recovers with 100,000 parked is not drowned
    RecoveryDrain(Part),
    /// The gateway: hostile receivers and hostile clients
    Hostile(Part),
    /// The gateway: a full disk, and a tenant with too much waiting
    Diskfull(Part),
    /// The gateway: no descriptor left, a pause, ordinary ends of connections, a wrong clock, and no receiver is blamed
    OwnFaults(Only),
    /// Reminders: 100,000 due at one moment start on time, within their limits, and nobody else notices
    RemindersBurst(Part),
    /// Reminders: a million that are not due cost nothing
    RemindersFuture(Part),
    /// Reminders: kill -9 while they fire, 100 times
    ReminderKills(Seeded),
    /// Reminders: a tenant over its limits is opened at once, parked, probed, and fires what it missed
    TenantLimits(Part),
    /// Reminders: no callback is missing in the window of its circuit
    Counters(Part),
    /// Notices: 50 trips of an endpoint in a minute are a few messages, also across a kill -9
    Notices(Part),
}

#[derive(Args)]
pub(crate) struct Seeded {
    /// What chance chooses; the same seed chooses the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often, instead of as often as is promised
    #[arg(long)]
    times: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Part {
    /// Only about a twentieth, as the tests do
    #[arg(long)]
    small: bool,
}

#[derive(Args)]
pub(crate) struct Rows {
    #[command(flatten)]
    part: Part,
    /// Only the row with this in its name, such as permits; all: everything at once
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
pub(crate) struct Isolation {
    #[command(flatten)]
    part: Part,
    /// Only what has this in its name: one, crowd, large-tenant
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
pub(crate) struct Only {
    #[command(flatten)]
    part: Part,
    /// Only what has this in its name: descriptors, pause, ends, clock
    #[arg(long, default_value = "")]
    only: String,
}

/// A proof that is ready to be made.
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
                let rows =
                    neighbours::rows().into_iter().filter(move |ways| neighbours::is_named(ways, &only));
                rows.map(|ways| Box::new(move || neighbours::prove(program, &ways, size)) as Tried<'_>)
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
            Self::Notices(part) => {
                let sizes =
                    if part.small { notices::Size::SMALL.to_vec() } else { notices::Size::FULL.to_vec() };
                let tried = |size| Box::new(move || notices::prove(program, size)) as Tried<'_>;
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
