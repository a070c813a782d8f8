//! Jobs of one call over Postgres: what each saw is in the store when it ends, however it ends.

use std::time::Duration;

use breakerbox::{Breakerbox, CallError, Consistency};
use breakerbox_testkit::servers::PostgresServer;
use tokio::runtime::{Builder, Runtime};

use crate::server::{patient, shared};

const KEY: &str = "acme https://hooks.acme.example/in";

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Close,
    Drop,
    Shutdown,
}

/// One failing call. Whether it was sent.
fn job(server: &PostgresServer, schema: &str, runtime: Runtime, consistency: Consistency, end: End) -> bool {
    let (breakers, sent) = runtime.block_on(async {
        let breakers = Breakerbox::builder()
            .store(patient(&server.url()).schema(schema).connect().await.unwrap())
            .consistency(consistency)
            .flush_every(Duration::from_secs(3_600))
            .store_timeout(Duration::from_secs(5))
            .build();
        let circuit = breakers.circuit(KEY).unwrap();
        let result = circuit.call(async { Err::<(), _>("down") }).await;
        drop(circuit);
        if end == End::Close {
            breakers.close().await.unwrap();
        }
        let breakers = (end == End::Shutdown).then_some(breakers);
        (breakers, matches!(result, Err(CallError::Failed(_))))
    });
    drop(runtime);
    drop(breakers);
    sent
}

#[test]
fn of_many_jobs_with_one_failing_call_five_send_it() {
    let server = shared();
    for (mode, consistency) in [("local", Consistency::LocalFirst), ("strict", Consistency::Strict)] {
        for end in [End::Close, End::Drop, End::Shutdown] {
            let schema = &format!("leaving_{mode}_{end:?}").to_lowercase();
            let sent = (0..8).filter(|n| {
                let runtime = match n % 2 {
                    0 => Builder::new_current_thread().enable_all().build(),
                    _ => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
                };
                job(&server, schema, runtime.unwrap(), consistency, end)
            });
            assert_eq!(sent.count(), 5, "{consistency:?}, {end:?}");
        }
    }
}
