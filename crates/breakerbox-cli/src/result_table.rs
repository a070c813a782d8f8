//! The table with which `breakerbox replay` counts HTTP statuses and faults: the gateway's response handling, without
//! any tenant's rules.

use std::time::Duration;

use breakerbox_model::delivery::{Fault, Reply, ResponseRules};
use breakerbox_replay::{Counted, ResultTable};

/// The gateway's response handling (docs/guide/gateway.md#response-handling).
pub(super) struct GatewayTable;

impl ResultTable for GatewayTable {
    fn status(&self, status: u16, retry_after: Option<Duration>) -> Counted {
        counted(Reply::Answered { status, retry_after })
    }

    fn fault(&self, name: &str) -> Option<Counted> {
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name)?;
        Some(counted(Reply::Failed(fault)))
    }

    fn fault_names(&self) -> Vec<&'static str> {
        Fault::ALL.iter().map(|fault| fault.name()).collect()
    }
}

fn counted(reply: Reply) -> Counted {
    // A replay has no lanes, so for how long one would sleep does not matter.
    let effect = |is_probe| ResponseRules::default().of(reply, is_probe, Duration::ZERO);
    let (call, probe) = (effect(false), effect(true));
    Counted { outcome: call.circuit, probe_outcome: probe.circuit, retry_after: call.retry_after }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::OutcomeKind::{Failure, Ignored, Success};

    use super::*;

    #[test]
    fn a_rejected_payload_is_ignored_but_shows_that_a_probe_arrived() {
        let wait = Some(Duration::from_secs(90));
        let table = [
            (204, (Success, Success, None)),
            (422, (Ignored, Success, None)),
            (404, (Failure, Failure, None)),
            (429, (Ignored, Ignored, None)),
            (500, (Failure, Failure, None)),
            (503, (Failure, Failure, wait)),
        ];
        for (status, (outcome, probe_outcome, retry_after)) in table {
            let expected = Counted { outcome, probe_outcome, retry_after };
            assert_eq!(GatewayTable.status(status, wait), expected, "{status}");
        }
    }

    #[test]
    fn every_fault_is_a_failure() {
        for name in GatewayTable.fault_names() {
            let counted = GatewayTable.fault(name).unwrap();
            assert_eq!((counted.outcome, counted.probe_outcome), (Failure, Failure), "{name}");
        }
        assert_eq!(GatewayTable.fault("local"), None);
    }
}
