//! How many calls a recovery costs: the calls to an endpoint that is still down, for each attempt to recover, by the
//! number of the sender's workers.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::RetrySchedule;

use crate::breakers::Row;
use crate::day::{Scenario, run_one};
use crate::faults::{Failure, Faults, Outage};
use crate::population::{Endpoint, Kind};

/// The numbers of workers that are compared.
pub(crate) const WORKERS: [usize; 3] = [1, 8, 50];
const OUTAGE: Duration = Duration::from_secs(600);
const START: Duration = Duration::from_secs(60);
const EVENTS_A_SECOND: f64 = 10.0;

/// Returns the calls for each attempt to recover, for each number of workers; `None` if the rule never opens.
pub(crate) fn calls_for_each_recovery(row: &Row) -> [Option<f64>; 3] {
    WORKERS.map(|workers| {
        let from = Timestamp::ZERO + START;
        let outage = Outage { from, until: from + OUTAGE, error_rate: 1.0, failure: Failure::Status };
        let endpoint = Endpoint {
            kind: Kind::DownForAnHour,
            rate: EVENTS_A_SECOND,
            latency: Duration::from_millis(100),
            faults: Faults::new(vec![outage], None),
        };
        let scenario = Scenario {
            seed: 1,
            endpoints: vec![endpoint],
            length: START + OUTAGE,
            in_flight: workers,
            schedule: RetrySchedule::default(),
            enough_waiting: None,
        };
        let (calls, attempts) = run_one(&scenario, row, row.processes.min(workers));
        // The calls of the last attempt may not have ended yet.
        #[allow(clippy::cast_precision_loss)] // Far below 2^53.
        (attempts > 0).then(|| calls as f64 / f64::from(attempts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breakers::{NO_BREAKER, OURS, PUBLISHED, rows};

    #[test]
    fn one_call_probes_for_us_and_many_where_half_open_has_no_limit() {
        for row in rows() {
            let calls = calls_for_each_recovery(&row);
            match row.name.as_str() {
                NO_BREAKER => assert_eq!(calls, [None; 3]),
                OURS => {
                    assert!(calls.iter().all(|calls| calls.is_some_and(|calls| calls <= 1.2)), "{calls:?}");
                }
                name if name == PUBLISHED[0] => assert!(calls[2] > Some(100.0), "{calls:?}"),
                _ => assert!(calls.iter().all(Option::is_some), "{}: {calls:?}", row.name),
            }
        }
    }
}
