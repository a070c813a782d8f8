//! Leader faults: a leader is paused for longer than its term, killed, or disconnected from the store or from
//! the table.

use crate::sim::run::Run;

use super::plan::LeaderFault;

impl Run {
    /// Starts a fault in this worker, which is the current leader.
    pub(in crate::sim) fn inject(&mut self, worker: usize, fault: LeaderFault) {
        self.world.note(|| format!("w{worker}, the leader, is {fault:?}"));
        match fault {
            LeaderFault::Paused(_) => self.pause(worker),
            LeaderFault::Killed(_) => self.kill(worker),
            LeaderFault::CutOff(how, _) => self.network.cut(worker, Some(how)),
            LeaderFault::NoPolls(_) => self.network.attempts.cut(worker, true),
        }
    }

    /// Ends a fault in this worker.
    pub(in crate::sim) fn heal_leader(&mut self, worker: usize, fault: LeaderFault) {
        match fault {
            LeaderFault::Paused(_) => self.resume(worker),
            LeaderFault::Killed(_) => self.start(worker),
            LeaderFault::CutOff(..) => self.network.cut(worker, None),
            LeaderFault::NoPolls(_) => self.network.attempts.cut(worker, false),
        }
    }
}
