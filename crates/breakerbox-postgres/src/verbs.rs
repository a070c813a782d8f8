//! The verbs: what goes to the server, and what comes back. Nothing is decided here, and nothing is tried twice.
//!
//! | verb | round trips |
//! | --- | --- |
//! | merge | one for up to 1,000 circuits |
//! | swap | one: its statements are sent together, as one transaction |
//! | read, list, lead | one |
//!
//! The first time on a connection, one more prepares the statement.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{
    Answer, Cursor, Delta, ListQuery, Merged, Page, Readable, StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record, Status, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::batch::{Batch, merged, rounds};
use crate::bigint::{epoch, micros, time, timed};
use crate::database::Database;
use crate::error::unavailable;
use crate::notice;
use crate::record::{self, column};
use crate::statements::{Statements, channel};

/// How many keys are read at once at the most.
const MAX_KEYS: usize = 1_000;

/// How many circuits are on a page at the most.
const MAX_PAGE: usize = 1_000;

/// How many rows one step of the clean-up looks at.
const CLEARED_AT_ONCE: i64 = 1_000;

/// The verbs, on one schema of one database.
#[derive(Debug)]
pub(crate) struct Verbs {
    database: Database,
    statements: Statements,
    channel: String,
}

impl Verbs {
    pub(crate) fn new(database: Database, schema: &str) -> Self {
        Self { database, statements: Statements::new(schema), channel: channel(schema) }
    }

    /// One statement.
    async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        self.database
            .within(async {
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

    pub(crate) async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        for delta in deltas {
            record::key(&delta.key)?;
        }
        let mut answers: Vec<Option<Readable<Merged>>> = vec![None; deltas.len()];
        let mut now = None;
        for round in rounds(deltas) {
            let batch = Batch::of(round.iter().map(|place| &deltas[*place]));
            let rows = self.query(&self.statements.merge, &batch.parameters()).await?;
            for (place, row) in round.iter().zip(&rows) {
                now = now.or(Some(now_in(row)?));
                answers[*place] = Some(merged(&deltas[*place].key, row)?);
            }
        }
        let value = answers
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| unavailable("an answer is missing"))?;
        match now {
            Some(now) => Ok(Answer { now, value }),
            None => Ok(Answer { now: self.read(&[]).await?.now, value }),
        }
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
        let row = self.database.within(self.swap_once(swap)).await?;
        let there = || Ok::<_, StoreError>(record::read(&swap.key, column(&row, "record")?)?);
        let value = match (column(&row, "won")?, column(&row, "expected")?) {
            // What it replaced need not have made sense.
            (true, _) => Swapped::Won,
            (false, true) => Swapped::TooLate(there()?),
            (false, false) => Swapped::Lost(there()?),
        };
        Ok(Answer { now: now_in(&row)?, value })
    }

    /// All statements of a swap are sent before the first is answered. Each sees what was there when it began, so that the last
    /// one, which began with everything locked, sees what it replaces.
    async fn swap_once(&self, swap: &Swap) -> Result<Row, StoreError> {
        let key = record::key(&swap.key)?;
        let expected = swap.expected.map(|version| version.0.to_be_bytes().to_vec());
        let version = swap.record.version.0.to_be_bytes().to_vec();
        let text = record::write(&swap.key, &swap.record)?;
        let notice = notice::write(&swap.key, &swap.record);
        let (not_after, new_epoch) = (time(swap.not_after), epoch(swap.record.epoch));
        let (status, keep_for) = (swap.record.status().name(), swap.keep_for.map(micros));
        let parameters: [&(dyn ToSql + Sync); 10] = [
            &key,
            &expected,
            &not_after,
            &version,
            &new_epoch,
            &status,
            &text,
            &keep_for,
            &self.channel,
            &notice,
        ];
        let of_key: [&(dyn ToSql + Sync); 1] = [&key];
        let loan = self.database.lend().await?;
        let answer = async {
            let claim_circuit = loan.prepare_cached(&self.statements.claim_circuit).await?;
            let claim_counts = loan.prepare_cached(&self.statements.claim_counts).await?;
            let swap_if = loan.prepare_cached(&self.statements.swap_if).await?;
            let (begun, circuit, counts, swapped, committed) = tokio::join!(
                biased;
                loan.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
                loan.execute(&claim_circuit, &of_key),
                loan.execute(&claim_counts, &of_key),
                loan.query_one(&swap_if, &parameters),
                loan.batch_execute("COMMIT"),
            );
            // The first that failed says why; the others only say that it did.
            begun.and(circuit).and(counts)?;
            let row = swapped?;
            committed.map(|()| row)
        };
        let answer = answer.await;
        loan.settle(answer)
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        // Keys are text, so that no byte of them is this; what comes right after a key is the key and a zero.
        const BEYOND: u8 = 0xff;
        let from = match &query.after {
            Some(Cursor(after)) => [after.as_bytes(), &[0]].concat().max(query.prefix.as_bytes().to_vec()),
            None => query.prefix.as_bytes().to_vec(),
        };
        let before = [query.prefix.as_bytes(), &[BEYOND]].concat();
        let limit = query.limit.clamp(1, MAX_PAGE);
        let one_more = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let rows = match query.status.map(Status::name) {
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

    /// Looks at some rows of a table from a key on, and deletes those that have expired. Returns where to go on; none: that was
    /// all.
    pub(crate) async fn clear(&self, table: Table, from: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = match table {
            Table::Circuits => &self.statements.clear_circuits,
            Table::Counts => &self.statements.clear_counts,
            Table::Leases => &self.statements.clear_leases,
        };
        let rows = self.query(sql, &[&from, &CLEARED_AT_ONCE]).await?;
        rows.first().map(|row| Ok([column::<&[u8]>(row, "key")?, &[0]].concat())).transpose()
    }
}

/// What expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Circuits,
    Counts,
    Leases,
}

fn now_in(row: &Row) -> Result<Timestamp, StoreError> {
    column(row, "now").map(timed)
}
