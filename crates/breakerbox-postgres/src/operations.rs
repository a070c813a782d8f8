//! The store's operations: they send statements to the server, and convert the results. They neither decide nor
//! retry.
//!
//! | operation | round trips |
//! | --- | --- |
//! | merge | one for up to 1,000 circuits |
//! | swap | one for up to 100 circuits: all statements are sent together, as one transaction |
//! | read, list, lead, [ramp](crate::ramping), check_write | one |
//!
//! The first use of a statement on a connection takes one more round trip, to prepare it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use breakerbox::store::{
    Answer, Cursor, Delta, ListQuery, Merged, Page, Readable, StoreError, Swap, Swapped, Term,
};
use breakerbox::{CircuitStatus, Nonce, Record, Timestamp};
use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::batch::{Batch, merged, rounds};
use crate::bigint::{epoch, micros, time, timed};
use crate::database::Database;
use crate::error::unavailable;
use crate::message;
use crate::record::{self, column};
use crate::recreate::Recreation;
use crate::statements::{Statements, channel};

/// The maximum number of keys in one read statement.
const MAX_KEYS: usize = 1_000;

/// The maximum number of circuits on a page.
const MAX_PAGE: usize = 1_000;

/// The maximum number of swaps in one transaction. It bounds the time for which other transactions wait for the
/// transaction's locks to a few milliseconds.
const MAX_SWAPS: usize = 100;

/// The time to live of the row that the write check writes.
const KEEP_CHECK_FOR: Duration = Duration::from_secs(60);

/// The maximum number of rows that one cleanup step examines.
const CLEAR_BATCH: i64 = 1_000;

/// The store's operations, on one schema in one database.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) database: Database,
    pub(crate) statements: Statements,
    channel: String,
    /// The name of the row that this process writes for the write check.
    check_name: Vec<u8>,
    recreation: Arc<Recreation>,
}

impl Operations {
    pub(crate) fn new(database: Database, schema: &str, recreation: Arc<Recreation>) -> Self {
        let check_name = [b"\xffwrite check ".as_slice(), &rand::random::<u128>().to_be_bytes()].concat();
        let (statements, channel) = (Statements::new(schema), channel(schema));
        Self { database, statements, channel, check_name, recreation }
    }

    /// Executes one statement on a pooled connection.
    async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        self.within(async {
            let loan = self.database.lend().await?;
            let answer = async {
                let statement = loan.prepare_cached(sql).await?;
                loan.query(&statement, parameters).await
            };
            let answer = answer.await;
            loan.settle(answer)
        })
        .await
    }

    /// Runs an operation with the timeout. If tables are missing, requests that they are created again in the
    /// background.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.database.within(work).await.map_err(|error| self.recreation.note(error))
    }

    pub(crate) async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        for delta in deltas {
            record::key(&delta.key)?;
        }
        let mut answers: Vec<Option<Readable<Merged>>> = vec![None; deltas.len()];
        let mut now = None;
        for round in rounds(deltas) {
            let batch = Batch::of(round.iter().map(|index| &deltas[*index]));
            let rows = self.query(&self.statements.merge, &batch.parameters()).await?;
            for (index, row) in round.iter().zip(&rows) {
                now = now.or(Some(now_in(row)?));
                answers[*index] = Some(merged(&deltas[*index].key, row)?);
            }
        }
        self.whole(answers, now).await
    }

    pub(crate) async fn read(
        &self,
        keys: &[Arc<str>],
    ) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        let mut value = Vec::with_capacity(keys.len());
        let mut now = None;
        loop {
            let some = &keys[value.len()..keys.len().min(value.len() + MAX_KEYS)];
            let bytes = some.iter().map(|key| record::key(key)).collect::<Result<Vec<_>, _>>()?;
            let rows = self.query(&self.statements.read, &[&bytes]).await?;
            if rows.len() != some.len().max(1) {
                return Err(unavailable("an answer is missing"));
            }
            now = now.or(rows.first().map(now_in).transpose()?);
            for (key, row) in some.iter().zip(&rows) {
                value.push(record::read(key, column(row, "record")?));
            }
            if value.len() == keys.len() {
                let now = now.ok_or_else(|| unavailable("the time is missing"))?;
                return Ok(Answer { now, value });
            }
        }
    }

    pub(crate) async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        let Answer { now, mut value } = self.swap_all(std::slice::from_ref(swap)).await?;
        let value = value.pop().ok_or_else(|| unavailable("an answer is missing"))?;
        Ok(Answer { now, value: value? })
    }

    /// Makes the swaps in batches, in key order, so that batches never deadlock with each other.
    pub(crate) async fn swap_all(
        &self,
        swaps: &[Swap],
    ) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let mut order: Vec<_> = (0..swaps.len()).collect();
        order.sort_by(|a, b| swaps[*a].key.cmp(&swaps[*b].key));
        let mut answers: Vec<Option<Readable<Swapped>>> = vec![None; swaps.len()];
        let mut now = None;
        for indices in order.chunks(MAX_SWAPS) {
            let some = indices
                .iter()
                .map(|index| SwapParameters::new(&swaps[*index]))
                .collect::<Result<Vec<_>, _>>()?;
            let rows = self.within(self.swap_once(&some)).await?;
            for (index, row) in indices.iter().zip(&rows) {
                now = now.or(Some(now_in(row)?));
                answers[*index] = Some(swapped(&swaps[*index].key, row)?);
            }
        }
        self.whole(answers, now).await
    }

    /// Combines the results of all batches. Without batches, reads the store's time.
    async fn whole<T>(
        &self,
        answers: Vec<Option<T>>,
        now: Option<Timestamp>,
    ) -> Result<Answer<Vec<T>>, StoreError> {
        let value = answers
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| unavailable("an answer is missing"))?;
        let now = match now {
            Some(now) => now,
            None => self.read(&[]).await?.now,
        };
        Ok(Answer { now, value })
    }

    /// Makes the swaps in one transaction, in one round trip. All statements are sent before the first
    /// response. Each statement sees the rows as of its start. A circuit's last statement starts when all of
    /// the circuit's rows are locked, so it sees the rows that it replaces.
    async fn swap_once(&self, swaps: &[SwapParameters]) -> Result<Vec<Row>, StoreError> {
        let loan = self.database.lend().await?;
        let answer = async {
            let claim_circuit = loan.prepare_cached(&self.statements.claim_circuit).await?;
            let claim_counts = loan.prepare_cached(&self.statements.claim_counts).await?;
            let swap_if = loan.prepare_cached(&self.statements.swap_if).await?;
            let one = async |swap: &SwapParameters| {
                let of_key: [&(dyn ToSql + Sync); 1] = [&swap.key];
                let (circuit, counts, swapped) = tokio::join!(
                    biased;
                    loan.execute(&claim_circuit, &of_key),
                    loan.execute(&claim_counts, &of_key),
                    async { loan.query_one(&swap_if, &swap.parameters(&self.channel)).await },
                );
                // The first error states the reason; the others only report that the transaction failed.
                circuit.and(counts).and(swapped)
            };
            let (begun, rows, committed) = tokio::join!(
                biased;
                loan.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
                all_in_order(swaps.iter().map(one)),
                loan.batch_execute("COMMIT"),
            );
            begun?;
            let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
            committed.map(|()| rows)
        };
        let answer = answer.await;
        loan.settle(answer)
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        // Keys are UTF-8, which never contains this byte. The first possible string after a key is the key plus
        // a zero byte.
        const AFTER_LAST: u8 = 0xff;
        let from = match &query.after {
            Some(Cursor(after)) => [after.as_bytes(), &[0]].concat().max(query.prefix.as_bytes().to_vec()),
            None => query.prefix.as_bytes().to_vec(),
        };
        let before = [query.prefix.as_bytes(), &[AFTER_LAST]].concat();
        let limit = query.limit.clamp(1, MAX_PAGE);
        let one_more = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let rows = match query.status.map(CircuitStatus::name) {
            None => self.query(&self.statements.list, &[&from, &before, &one_more]).await?,
            Some(status) => {
                self.query(&self.statements.list_by_status, &[&from, &before, &one_more, &status]).await?
            }
        };
        let mut page = Page::default();
        let mut last = None;
        for row in rows.iter().take(limit) {
            let key = record::read_key(column(row, "key")?)?;
            last = Some(Arc::clone(&key));
            match record::read(&key, column(row, "record")?) {
                Ok(Some(record)) => page.circuits.push((key, record)),
                Ok(None) => {}
                Err(unreadable) => page.unreadable.push(unreadable),
            }
        }
        let more = rows.len() > limit;
        page.next = last.filter(|_| more).map(|key| Cursor(key.to_string()));
        Ok(page)
    }

    pub(crate) async fn lead(
        &self,
        name: &str,
        candidate: Nonce,
        ttl: Duration,
    ) -> Result<Answer<Term>, StoreError> {
        let (name, candidate) = (record::key(name)?, candidate.0.to_be_bytes().to_vec());
        let rows = self.query(&self.statements.lead, &[&name, &candidate, &micros(ttl)]).await?;
        let row = rows.first().ok_or_else(|| unavailable("an answer is missing"))?;
        let holder: &[u8] = column(row, "holder")?;
        let leads = holder == candidate && !ttl.is_zero();
        Ok(Answer { now: now_in(row)?, value: Term { leads, ends_at: timed(column(row, "ends_at")?) } })
    }

    /// Writes a row to check that the server accepts writes. The row's name starts with a byte that UTF-8 never
    /// contains, so it can't be the name of an election.
    pub(crate) async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        let keep_for = micros(KEEP_CHECK_FOR);
        let rows = self.query(&self.statements.check_write, &[&self.check_name, &keep_for]).await?;
        let row = rows.first().ok_or_else(|| unavailable("an answer is missing"))?;
        Ok(Answer { now: now_in(row)?, value: () })
    }

    /// Sends a request for reports to all listeners, in several messages if there are many keys.
    pub(crate) async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        let messages = message::call_for_reports(keys);
        if !messages.is_empty() {
            self.query(&self.statements.call_for_reports, &[&self.channel, &messages]).await?;
        }
        Ok(())
    }

    /// Examines some rows of a table, starting at the key `from`, and deletes the expired rows. Returns the key
    /// at which to continue; `None` at the end of the table.
    pub(crate) async fn clear(&self, table: Table, from: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = match table {
            Table::Circuits => &self.statements.clear_circuits,
            Table::Counts => &self.statements.clear_counts,
            Table::Leases => &self.statements.clear_leases,
            Table::Ramps => &self.statements.clear_ramps,
        };
        let rows = self.query(sql, &[&from, &CLEAR_BATCH]).await?;
        rows.first().map(|row| Ok([column::<&[u8]>(row, "key")?, &[0]].concat())).transpose()
    }
}

/// A swap, as parameters for the statements.
struct SwapParameters {
    key: Vec<u8>,
    expected: Option<Vec<u8>>,
    not_after: i64,
    version: Vec<u8>,
    epoch: i64,
    status: &'static str,
    record: Vec<u8>,
    keep_for: Option<i64>,
    message: String,
}

impl SwapParameters {
    fn new(swap: &Swap) -> Result<Self, StoreError> {
        Ok(Self {
            key: record::key(&swap.key)?.to_vec(),
            expected: swap.expected.map(|version| version.0.to_be_bytes().to_vec()),
            not_after: time(swap.not_after),
            version: swap.record.version.0.to_be_bytes().to_vec(),
            epoch: epoch(swap.record.epoch),
            status: swap.record.status().name(),
            record: record::write(&swap.key, &swap.record)?,
            keep_for: swap.keep_for.map(micros),
            message: message::write(&swap.key, &swap.record),
        })
    }

    fn parameters<'s>(&'s self, channel: &'s String) -> [&'s (dyn ToSql + Sync); 10] {
        [
            &self.key,
            &self.expected,
            &self.not_after,
            &self.version,
            &self.epoch,
            &self.status,
            &self.record,
            &self.keep_for,
            channel,
            &self.message,
        ]
    }
}

/// Converts the result row of a swap.
fn swapped(key: &Arc<str>, row: &Row) -> Result<Readable<Swapped>, StoreError> {
    let there = || Ok::<_, StoreError>(record::read(key, column(row, "record")?));
    Ok(match (column(row, "won")?, column(row, "expected")?) {
        // The record that was replaced need not be readable.
        (true, _) => Ok(Swapped::Won),
        (false, true) => there()?.map(Swapped::TooLate),
        (false, false) => there()?.map(Swapped::Lost),
    })
}

/// Waits for all futures, after polling them once in order. Each future sends its request at its first poll. A
/// future that is first polled later, such as a commit, therefore sends its request last.
async fn all_in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Pin<Box<MaybeDone<F>>>> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let waiting =
            all.iter_mut().filter_map(|one| one.as_mut().poll(context).is_pending().then_some(())).count();
        if waiting == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().filter_map(|one| one.as_mut().take_output()).collect()
}

/// The tables whose rows expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Circuits,
    Counts,
    Leases,
    Ramps,
}

pub(crate) fn now_in(row: &Row) -> Result<Timestamp, StoreError> {
    column(row, "now").map(timed)
}
