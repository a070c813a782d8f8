//! The feature `metrics`: what a registry counts in the program's recorder.

use std::collections::BTreeMap;

use breakerbox::store::MemoryStore;
use breakerbox::{Attribution, Breakerbox, OverrideCommand};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::service::{Service, fail, secs, simple, succeed};

/// All series that changed since the previous call, such as `breakerbox_calls_total outcome=success`, and by how much. The
/// label `registry` is left out, and other registries are.
fn values(snapshotter: &Snapshotter, registry: &str) -> BTreeMap<String, i64> {
    let mut values = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let mut labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
        labels.sort_unstable();
        if !labels.contains(&("registry", registry)) {
            continue;
        }
        let labels = labels.iter().filter(|(name, _)| *name != "registry");
        let name = labels.fold(key.name().to_owned(), |name, (key, value)| format!("{name} {key}={value}"));
        #[allow(clippy::cast_possible_truncation)] // Gauges are whole numbers here.
        let value = match value {
            DebugValue::Counter(count) => i64::try_from(count).unwrap(),
            DebugValue::Gauge(value) => value.into_inner() as i64,
            DebugValue::Histogram(_) => panic!("{name} is a histogram"),
        };
        if value != 0 {
            values.insert(name, value);
        }
    }
    values
}

fn expect(found: &BTreeMap<String, i64>, expected: &[(&str, i64)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(*found, expected);
}

#[test]
fn calls_refusals_transitions_and_states_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let service = Service::with(&simple(), |builder| builder.name("orders"));
        let circuit = service.circuit("e1");
        succeed(&circuit, 1_000);
        circuit.try_acquire().unwrap().ignored();
        fail(&circuit, 3);
        for _ in 0..5 {
            circuit.try_acquire().unwrap_err();
        }
        expect(
            &values(&snapshotter, "orders"),
            &[
                ("breakerbox_calls_total outcome=failure", 3),
                ("breakerbox_calls_total outcome=ignored", 1),
                ("breakerbox_calls_total outcome=success", 1_000),
                ("breakerbox_circuits state=open", 1),
                ("breakerbox_refusals_total reason=open", 5),
                ("breakerbox_transitions_total cause=consecutive_failures from=closed to=open", 1),
            ],
        );

        service.clock.advance(secs(30));
        let probe = circuit.try_acquire().unwrap();
        circuit.try_acquire().unwrap_err();
        expect(
            &values(&snapshotter, "orders"),
            &[
                ("breakerbox_circuits state=half_open", 1),
                ("breakerbox_circuits state=open", -1),
                ("breakerbox_refusals_total reason=probing", 1),
                ("breakerbox_transitions_total cause=cool_off_over from=open to=half_open", 1),
            ],
        );

        probe.success();
        let by = Attribution::new("ops", "moving").unwrap();
        service.circuit("e2").try_override(OverrideCommand::Disable, &by).unwrap();
        expect(
            &values(&snapshotter, "orders"),
            &[
                ("breakerbox_calls_total outcome=success", 1),
                ("breakerbox_circuits state=disabled", 1),
                ("breakerbox_circuits state=half_open", -1),
                ("breakerbox_transitions_total cause=disable from=closed to=disabled", 1),
                ("breakerbox_transitions_total cause=probes_succeeded from=half_open to=closed", 1),
            ],
        );

        succeed(&circuit, 7);
        drop((circuit, service));
        expect(
            &values(&snapshotter, "orders"),
            &[("breakerbox_calls_total outcome=success", 7), ("breakerbox_circuits state=disabled", -1)],
        );
    });
}

#[test]
fn a_healthy_circuits_calls_appear_after_a_tenth_of_the_window() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let service = Service::new(&simple().window(secs(10)));
        let circuit = service.circuit("e1");
        for _ in 0..10 {
            succeed(&circuit, 100);
            service.clock.advance(secs(1));
        }
        succeed(&circuit, 1);
        let counted = values(&snapshotter, "default")["breakerbox_calls_total outcome=success"];
        assert!(counted >= 900, "{counted}");
    });
}

#[test]
fn dry_runs_count_what_they_would_have_refused() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let service = Service::with(&simple(), |builder| builder.dry_run(|_, _| {}));
        let circuit = service.tripped("e1");
        circuit.try_acquire().unwrap().success();
        let found = values(&snapshotter, "default");
        assert_eq!(found["breakerbox_refusals_total reason=open"], 1);
        assert_eq!(found.get("breakerbox_calls_total outcome=success"), None);
    });
}

#[test]
fn a_circuit_that_another_process_opened_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = std::sync::Arc::new(MemoryStore::new());
            let process = || {
                let policy = simple().build().unwrap();
                Breakerbox::builder().policy(policy).store(std::sync::Arc::clone(&store)).build()
            };
            let (one, other) = (process(), process());
            let (here, there) = (one.circuit("e1").unwrap(), other.circuit("e1").unwrap());
            for _ in 0..3 {
                let _ = here.call(async { Err::<(), _>("down") }).await;
            }
            one.flush().await.unwrap();
            assert!(there.call(async { Ok::<_, ()>(()) }).await.is_err());
            // Both registries add to the gauge of the same name.
            assert_eq!(values(&snapshotter, "default")["breakerbox_circuits state=open"], 2);
        });
    });
}
