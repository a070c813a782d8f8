//! The test rig itself: workers execute commands, and end with their test; the receiver sees their calls.

use std::time::{Duration, Instant};

use breakerbox_proofs::fleet::protocol::{Answer, Outcome, Run, Target, WorkerCommand};
use breakerbox_proofs::fleet::worker::Settings;
use breakerbox_proofs::fleet::{Acquired, Backing, Behaviour, Kind, Process, Receiver, WAIT_LIMIT};

use crate::program;

const POLICY: &str = r#"{"failure_rate":"off","consecutive_failures":2,"cool_off":"30s","jitter":0,"ramp_cap":"off","probes":1}"#;

fn settings(backing: &Backing, receiver: &Receiver, number: u32) -> Settings {
    let own = Settings::new(&backing.url(), &receiver.url(), number);
    Settings { policy: POLICY.into(), store_timeout_ms: 20_000, flush_every_ms: 5, ..own }
}

/// Waits until a condition is met.
async fn until(what: &str, mut is_there: impl FnMut() -> bool) {
    let limit = Instant::now() + WAIT_LIMIT;
    while !is_there() {
        assert!(Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_do_what_they_are_told_and_the_receiver_sees_it() {
    for kind in Kind::ALL {
        let (backing, receiver) = (Backing::start(kind).await.unwrap(), Receiver::start().await.unwrap());
        let one = Process::start(program(), &settings(&backing, &receiver, 1)).await.unwrap();
        let mut two = Process::start(program(), &settings(&backing, &receiver, 2)).await.unwrap();
        receiver.set("/e1", Behaviour::Failing);
        for process in [&one, &two] {
            let Acquired::Call(permit) = process.try_acquire("e1").await.unwrap() else { panic!("closed") };
            assert_eq!(process.send(permit, "/e1").await.unwrap(), Some(503));
            assert_eq!(process.settle(permit, Outcome::Failure).await.unwrap(), "counted");
        }
        one.becomes("e1", "open").await.unwrap();
        two.becomes("e1", "open").await.unwrap();
        assert_eq!(one.try_acquire("e1").await.unwrap(), Acquired::Refused("open".into()));
        assert_eq!(backing.record("e1").await.unwrap(), one.state("e1").await.unwrap().record);
        let seen: Vec<_> = receiver.visits("/e1").iter().map(|visit| (visit.worker, visit.status)).collect();
        assert_eq!(seen, [(1, Some(503)), (2, Some(503))]);

        // A paused worker does not respond, and continues where it was.
        receiver.set("/e2", Behaviour::Hanging);
        two.pause().await.unwrap();
        let call = two.begin(WorkerCommand::Call { key: "e2".into(), path: "/e2".into() }).await.unwrap();
        one.try_acquire("e2").await.unwrap();
        assert_eq!(receiver.count("/e2"), 0);
        two.resume().unwrap();
        until("it goes on", || receiver.count("/e2") == 1).await;
        receiver.set("/e2", Behaviour::Healthy(Duration::ZERO));
        assert!(matches!(call.answer().await.unwrap(), Answer::Sent { status: Some(200) }));

        // The call of a killed worker ends.
        receiver.set("/e2", Behaviour::Hanging);
        let call = two.begin(WorkerCommand::Call { key: "e2".into(), path: "/e2".into() }).await.unwrap();
        until("it calls", || receiver.count("/e2") == 2).await;
        two.kill().await.unwrap();
        assert!(call.answer().await.is_err());
        until("it is gone", || receiver.visits("/e2")[1].ended.is_some()).await;
        assert_eq!(receiver.visits("/e2")[1].status, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_makes_calls_until_it_is_stopped() {
    let (backing, receiver) = (Backing::start(Kind::Redis).await.unwrap(), Receiver::start().await.unwrap());
    let worker = Process::start(program(), &settings(&backing, &receiver, 1)).await.unwrap();
    let targets = ["/e1", "/e2"].map(|path| Target { key: path.into(), path: path.into() }).to_vec();
    let command = WorkerCommand::Run(Run::new(targets, 500));
    let Answer::Running { run } = worker.command(command).await.unwrap() else { panic!("it runs") };
    until("calls come", || receiver.count("/e1") > 20 && receiver.count("/e2") > 20).await;
    let tally = worker.begin(WorkerCommand::Stop { run }).await.unwrap().tally().await.unwrap();
    let received = receiver.count("/e1") + receiver.count("/e2");
    assert_eq!((tally.calls, tally.failed), (u64::try_from(received).unwrap(), 0));
    let health = worker.health().await.unwrap();
    assert_eq!((health.degraded, health.losses, health.unanswered_reports), (None, 0, 0));
}
