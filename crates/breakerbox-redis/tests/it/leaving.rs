//! Jobs of one call over Redis: what each saw is in the store when it ends, however it ends.

use std::time::Duration;

use breakerbox::{Breakerbox, CallError, Consistency};
use breakerbox_testkit::servers::RedisServer;
use tokio::runtime::{Builder, Runtime};

use crate::server::connect;

const KEY: &str = "acme https://hooks.acme.example/in";

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Close,
    Drop,
    Shutdown,
}

/// One failing call. Whether it was sent.
fn job(server: &RedisServer, runtime: Runtime, consistency: Consistency, end: End) -> bool {
    let (breakers, sent) = runtime.block_on(async {
        let breakers = Breakerbox::builder()
            .store(connect(&server.url()).await)
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
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        for end in [End::Close, End::Drop, End::Shutdown] {
            let server = RedisServer::start().unwrap();
            let sent = (0..8).filter(|n| {
                let runtime = match n % 2 {
                    0 => Builder::new_current_thread().enable_all().build(),
                    _ => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
                };
                job(&server, runtime.unwrap(), consistency, end)
            });
            assert_eq!(sent.count(), 5, "{consistency:?}, {end:?}");
        }
    }
}
