//! What happens to circuits, written down. Observers may not wait, so changes go through a bounded line to a task that writes
//! them in batches. If the line is full, a change is missing in the history, and that is counted and said.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::CircuitChange;
use tokio::sync::mpsc;
use tracing::{error, warn};

use crate::objects::PastChange;
use crate::queue::records::Records;
use crate::telemetry::Metrics;

/// How many changes may wait to be written.
const LINE: usize = 65_536;

/// How many are written at once.
const BATCH: usize = 500;

/// How often one batch is tried.
const TRIES: u32 = 10;

/// Takes changes, and never waits.
#[derive(Clone)]
pub(super) struct Scribe {
    line: mpsc::Sender<PastChange>,
    metrics: Arc<Metrics>,
}

/// Writes them.
pub(super) struct Writing {
    line: mpsc::Receiver<PastChange>,
    metrics: Arc<Metrics>,
}

pub(super) fn line(metrics: &Arc<Metrics>) -> (Scribe, Writing) {
    let (sender, receiver) = mpsc::channel(LINE);
    (
        Scribe { line: sender, metrics: Arc::clone(metrics) },
        Writing { line: receiver, metrics: Arc::clone(metrics) },
    )
}

impl Scribe {
    pub(super) fn note(&self, heard: &CircuitChange) {
        let change = PastChange { key: Arc::clone(&heard.key), change: heard.change.clone() };
        if self.line.try_send(change).is_err() {
            self.metrics.history_lost.inc();
            error!(circuit = %heard.key, "too many changes at once: this one is missing in the history");
        }
    }
}

impl Writing {
    /// Writes until nobody can take changes any more.
    pub(super) async fn run(mut self, records: Arc<dyn Records>) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.line.recv_many(&mut batch, BATCH).await > 0 {
            self.write(&*records, std::mem::take(&mut batch)).await;
        }
    }

    async fn write(&self, records: &dyn Records, batch: Vec<PastChange>) {
        let count = batch.len();
        for _ in 0..TRIES {
            match records.append_history(batch.clone()).await {
                Ok(_) => return,
                Err(error) => warn!(%error, count, "can't write the history of circuits; trying again"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.metrics.history_lost.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        error!(count, "changes of circuits are missing in the history");
    }
}
