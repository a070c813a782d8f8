//! The feature `tracing`: transitions as events, and no event for a call.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use crate::service::{Service, fail, secs, simple, succeed};

/// The lines that a subscriber writes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn take(&self) -> Vec<serde_json::Value> {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        text.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn transitions_are_events_and_calls_are_not() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .without_time()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(lines.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let service = Service::with(&simple(), |builder| builder.name("orders"));
        let circuit = service.circuit("e1");
        succeed(&circuit, 100);
        fail(&circuit, 2);
        assert_eq!(lines.take(), Vec::<serde_json::Value>::new(), "calls cause no events");

        fail(&circuit, 1);
        for _ in 0..10 {
            circuit.try_acquire().unwrap_err();
        }
        let opened = lines.take();
        let fields = serde_json::json!({
            "message": "circuit open", "registry": "orders", "key": "e1", "from": "closed", "to": "open",
            "cause": "consecutive_failures", "trips": 1, "cool_off_ms": 30_000
        });
        assert_eq!(
            opened,
            [serde_json::json!({ "level": "WARN", "target": "breakerbox", "fields": fields })],
            "refusals cause no events"
        );

        service.clock.advance(secs(30));
        succeed(&circuit, 1);
        let seen: Vec<_> = lines.take().iter().map(|line| line["fields"]["to"].clone()).collect();
        assert_eq!(seen, ["half_open", "closed"]);
    });
}
