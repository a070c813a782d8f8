//! The process is paused while requests are in flight: responses that arrived are accepted, and missing ones are local
//! faults.

use std::time::Duration;

use breakerbox_egress::host::Pauses;
use breakerbox_egress::{Incoming, Sender};
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_testkit::receiver::{Behaviour, Receiver};

use crate::sending::{Scripted, is_answered, settings, within};

const LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(2);

/// Makes requests with a timeout of a second, and pauses the only thread for two seconds once the receiver has all of
/// them.
async fn across_a_pause(path: &str, behaviour: Behaviour, number: u64) -> Vec<Incoming> {
    let receiver = Receiver::start().unwrap();
    receiver.set(path, behaviour);
    let pauses = Pauses::default();
    tokio::spawn(pauses.clone().watch(|_| {}));
    let sender = Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&[]])).unwrap();
    let sender = sender.with_pauses(pauses);
    let url = receiver.url(path);
    let requests = (0..number).map(|_| {
        let (sender, url) = (sender.clone(), url.clone());
        tokio::spawn(async move { sender.send(within(&url, LIMIT)).await })
    });
    let requests: Vec<_> = requests.collect();
    while receiver.seen(path).requests < number {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::thread::sleep(PAUSE);
    let mut ended = Vec::new();
    for request in requests {
        ended.push(request.await.unwrap());
    }
    ended
}

#[tokio::test]
async fn an_answer_that_came_during_a_pause_is_an_answer() {
    for incoming in across_a_pause("/well", Behaviour::after(200, Duration::from_millis(200)), 20).await {
        assert!(is_answered(&incoming, 200), "{incoming:?}");
        assert!(incoming.latency < PAUSE, "the pause is not the receiver's: {incoming:?}");
    }
}

#[tokio::test]
async fn a_time_limit_that_passed_during_a_pause_is_a_local_fault() {
    for incoming in across_a_pause("/hangs", Behaviour::Hang, 5).await {
        assert_eq!(incoming.reply, Reply::Failed(Fault::Local(LocalFault::Pause)), "{incoming:?}");
        assert!(incoming.detail.is_some_and(|detail| detail.contains("was paused for")));
    }
}

#[tokio::test]
async fn without_a_pause_a_time_limit_is_the_receivers() {
    let receiver = Receiver::start().unwrap();
    receiver.set("/hangs", Behaviour::Hang);
    let pauses = Pauses::default();
    tokio::spawn(pauses.clone().watch(|_| {}));
    let sender = Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&[]])).unwrap();
    let lost = pauses.lost();
    let sender = sender.with_pauses(pauses.clone());
    let incoming = sender.send(within(&receiver.url("/hangs"), LIMIT)).await;
    // On a very busy machine, it was in fact a pause.
    if pauses.lost() == lost {
        assert_eq!(incoming.reply, Reply::Failed(Fault::Timeout), "{incoming:?}");
    }
}
