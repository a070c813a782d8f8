//! `ramp`: acquires and releases slots in a circuit's ramp, in one round trip: all statements are sent
//! together, as one transaction.

use breakerbox::store::{Answer, RampReply, RampRequest, RampState, RampView, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::bigint::{count, counted, epoch, micros, time, timed};
use crate::operations::{Operations, now_in};
use crate::record::{self, column};

impl Operations {
    pub(crate) async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        let parameters = RampParameters::new(request)?;
        let row = self.within(self.ramp_once(&parameters)).await?;
        let value = if column(&row, "late")? { RampReply::Late } else { RampReply::Done(view(&row)?) };
        Ok(Answer { now: now_in(&row)?, value })
    }

    /// Executes a ramp request in two statements. The second starts when the first has acquired the lock, so it
    /// sees the current rows.
    async fn ramp_once(&self, parameters: &RampParameters) -> Result<Row, StoreError> {
        let loan = self.database.lend().await?;
        let answer = async {
            let claim = loan.prepare_cached(&self.statements.claim_ramp).await?;
            let ramp = loan.prepare_cached(&self.statements.ramp).await?;
            let of_key: [&(dyn ToSql + Sync); 1] = [&parameters.key];
            let (begun, claimed, row, committed) = tokio::join!(
                biased;
                loan.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
                loan.execute(&claim, &of_key),
                async { loan.query_one(&ramp, &parameters.parameters()).await },
                loan.batch_execute("COMMIT"),
            );
            begun?;
            // The first error states the reason; the others only report that the transaction failed.
            let row = claimed.and(row)?;
            committed.map(|()| row)
        };
        let answer = answer.await;
        loan.settle(answer)
    }
}

/// A ramp request, as parameters for the statements.
struct RampParameters {
    key: Vec<u8>,
    epoch: i64,
    first_limit: i64,
    slot_for: i64,
    begun_at: i64,
    given: Vec<Vec<u8>>,
    succeeded: Vec<bool>,
    expected: Option<i64>,
    next_limit: i64,
    take: Vec<Vec<u8>>,
    keep_for: i64,
}

impl RampParameters {
    fn new(request: &RampRequest) -> Result<Self, StoreError> {
        Ok(Self {
            key: record::key(&request.key)?.to_vec(),
            epoch: epoch(request.epoch),
            first_limit: request.first_limit.into(),
            slot_for: micros(request.slot_for),
            begun_at: time(request.begun_at),
            given: request.give.iter().map(|given| given.slot.0.to_be_bytes().to_vec()).collect(),
            succeeded: request.give.iter().map(|given| given.succeeded).collect(),
            expected: request.replace.map(|step| count(step.expected)),
            next_limit: request.replace.and_then(|step| step.limit).unwrap_or(0).into(),
            take: request.take.iter().map(|slot| slot.0.to_be_bytes().to_vec()).collect(),
            keep_for: micros(request.keep_for),
        })
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.key,
            &self.epoch,
            &self.first_limit,
            &self.slot_for,
            &self.begun_at,
            &self.given,
            &self.succeeded,
            &self.expected,
            &self.next_limit,
            &self.take,
            &self.keep_for,
        ]
    }
}

fn view(row: &Row) -> Result<RampView, StoreError> {
    let small = |name| {
        let number = column::<i64>(row, name)?;
        Ok::<_, StoreError>(u32::try_from(counted(number)).unwrap_or(u32::MAX))
    };
    let state = RampState {
        step: counted(column(row, "step")?),
        limit: Some(small("call_limit")?).filter(|limit| *limit > 0),
        successes: small("successes")?,
        refused_at: timed(column(row, "refused_at")?),
    };
    let replaced = column(row, "replaced")?;
    Ok(RampView { state, in_flight: small("in_flight")?, taken: small("taken")?, replaced })
}
