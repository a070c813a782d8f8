//! The options of `prove fleet`, and the tables that it prints.

use std::path::Path;

use anyhow::{Result, bail};
use breakerbox_proofs::fleet::{
    self, Fault, FaultResults, Jobs, Kind, Latency, Mode, Plan, Recoveries, Row, Scale, keep_states,
    ramp_together, recover_beside_broken, run_jobs,
};
use clap::{Args, ValueEnum};

/// The number of endpoints that recover in parallel.
const ENDPOINTS: u32 = 20;

/// The number of process groups in which faults are injected in parallel.
const LANES: u32 = 10;

#[derive(Args)]
pub(crate) struct Fleet {
    /// Run only with this store
    #[arg(long, value_enum)]
    store: Option<Kind>,
    /// Run only in this mode; recoveries and faults always run local-first
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Run only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Number of recoveries for each row of results, spread over 20 endpoints in parallel
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..))]
    rounds: u32,
    /// Number of rounds for each injected fault, spread over ten groups of processes in parallel
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(10..))]
    faults: u32,
    /// Number of rounds for each part other than recoveries and faults
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    promises: u32,
    /// Number of processes that recover together
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    processes: u32,
    /// Number of processes that ramp together
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u32).range(2..))]
    ramp_processes: u32,
}

/// The parts of the fleet tests that can be run separately.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One probe for each recovery
    Recoveries,
    /// Processes that are killed or paused while they probe, or disconnected from the store
    Faults,
    /// Recovery despite a process whose own network is broken
    Broken,
    /// States that are reached while the store is unreachable
    Kept,
    /// One ramp for all processes
    Ramp,
    /// Processes that make one call and exit
    Jobs,
}

impl Fleet {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    fn kinds(&self) -> Vec<Kind> {
        self.store.map_or(Kind::ALL.to_vec(), |kind| vec![kind])
    }

    #[tokio::main]
    pub(crate) async fn run(&self) -> Result<()> {
        let program = std::env::current_exe()?;
        let mut faulty = Vec::new();
        if self.wants(Part::Recoveries) {
            faulty.extend(self.recoveries(&program).await?);
        }
        if self.wants(Part::Faults) {
            faulty.extend(self.faults(&program).await?);
        }
        if [Part::Broken, Part::Kept, Part::Ramp, Part::Jobs].into_iter().any(|part| self.wants(part)) {
            faulty.extend(self.rows(&program).await?);
        }
        if !faulty.is_empty() {
            bail!("not as promised: {}", faulty.join(", "));
        }
        Ok(())
    }

    async fn recoveries(&self, program: &Path) -> Result<Vec<String>> {
        let mut faulty = Vec::new();
        println!("{}", Recoveries::head());
        for kind in self.kinds() {
            for (latency, probes) in
                [(Latency::None, 1), (Latency::Varying, 1), (Latency::None, 3), (Latency::Varying, 3)]
            {
                let (processes, rounds) = (self.processes, self.rounds / ENDPOINTS);
                let plan = Plan { kind, latency, probes, processes, endpoints: ENDPOINTS, rounds };
                let recoveries = fleet::recover(program, plan).await?;
                println!("{recoveries}");
                if !recoveries.faults().is_empty() {
                    faulty.push(format!("recoveries over {}", kind.name()));
                } else if !recoveries.is_worth_something() {
                    bail!("the processes hardly ever met; try again when the machine has cores to spare");
                }
            }
        }
        Ok(faulty)
    }

    async fn faults(&self, program: &Path) -> Result<Vec<String>> {
        let mut faulty = Vec::new();
        println!("\n{}", FaultResults::head());
        for kind in self.kinds() {
            for fault in Fault::ALL {
                let fault_results =
                    fleet::inject_fault(program, kind, fault, LANES, self.faults / LANES).await?;
                println!("{fault_results}");
                if !fault_results.faults().is_empty() {
                    faulty.push(format!("{fault}, over {}", kind.name()));
                }
            }
        }
        Ok(faulty)
    }

    async fn rows(&self, program: &Path) -> Result<Vec<String>> {
        let mut faulty = Vec::new();
        let scale = Scale::full(self.promises);
        println!("\n{}", Row::head());
        let mut note = |row: Row| {
            println!("{row}");
            if !row.faults().is_empty() {
                faulty.push(format!("{}, over {}, {}", row.promise, row.kind.name(), row.mode.name()));
            }
        };
        let modes = self.mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
        for kind in self.kinds() {
            for &mode in &modes {
                if self.wants(Part::Broken) {
                    note(recover_beside_broken(program, kind, mode, scale).await?);
                }
                if self.wants(Part::Kept) {
                    note(keep_states(program, kind, mode, scale).await?);
                }
                if self.wants(Part::Ramp) {
                    note(ramp_together(program, kind, mode, self.ramp_processes, scale).await?);
                }
                if self.wants(Part::Jobs) {
                    for jobs in [Jobs::IN_TURN, Jobs::FOUR_AT_ONCE] {
                        note(run_jobs(program, kind, mode, jobs, scale).await?);
                    }
                }
            }
        }
        Ok(faulty)
    }
}
