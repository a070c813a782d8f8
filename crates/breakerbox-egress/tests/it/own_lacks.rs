//! Local faults are not attributed to the receiver: an unreachable proxy, and look-up slots that are all in use.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_egress::{Outgoing, Proxy, Resolve, SendSettings, Sender};
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_testkit::receiver::{Receiver, RefusingPort};
use tokio::net::TcpListener;

use crate::sending::{Scripted, is_answered, settings, to, within};

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_a_local_fault() {
    let port = RefusingPort::new().unwrap();
    let proxy: Proxy = format!("http://{}", port.address()).parse().unwrap();
    let through = SendSettings { proxy: Some(proxy), ..settings(&[]) };
    let sender = Sender::with_resolver(&through, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let incoming = sender.send(to("http://hooks.example/")).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Local(LocalFault::Proxy)), "{incoming:?}");
    assert!(incoming.detail.unwrap().starts_with("the proxy can't be reached"));
}

#[tokio::test]
async fn a_proxy_that_is_there_is_waited_for_on_the_receivers_account() {
    // It accepts the connection, and never reports whether it reached the receiver.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy: Proxy = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let through = SendSettings { proxy: Some(proxy), ..settings(&[]) };
    let sender = Sender::with_resolver(&through, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let incoming = sender.send(within("http://hooks.example/", Duration::from_millis(300))).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Timeout), "{incoming:?}");
}

/// A resolver that never resolves names that begin with `slow`.
struct Slow;

#[async_trait]
impl Resolve for Slow {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.starts_with("slow") {
            std::future::pending::<()>().await;
        }
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[tokio::test]
async fn names_that_hang_take_no_look_ups_from_others() {
    let receiver = Receiver::start().unwrap();
    let port = receiver.address().port();
    let sender = Sender::with_resolver(&settings(&["127.0.0.0/8"]), Arc::new(Slow)).unwrap();
    let of = |tenant: &str, name: &str, limit| Outgoing {
        tenant: Some(tenant.parse().unwrap()),
        ..within(&format!("http://{name}:{port}/"), limit)
    };
    let short = Duration::from_millis(500);
    let hanging = (0..200).map(|number| sender.send(of("mallory", &format!("slow{number}.example"), short)));
    let ended = futures_util::future::join_all(hanging).await;
    let is = |fault: Fault| ended.iter().filter(|incoming| incoming.reply == Reply::Failed(fault)).count();
    assert_eq!(is(Fault::Timeout), 24, "those are their own names' fault");
    assert_eq!(is(Fault::Local(LocalFault::LookUps)), 176, "those waited for a look-up");

    // The resolver still hangs, since it can't be cancelled.
    let incoming = sender.send(of("acme", "well.example", short * 60)).await;
    assert!(is_answered(&incoming, 200), "{incoming:?}");
    let incoming = sender.send(of("mallory", "well2.example", short)).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Local(LocalFault::LookUps)), "{incoming:?}");
}

#[tokio::test]
async fn the_limit_for_connections_blames_the_right_one_too() {
    let limit = Duration::from_millis(300);
    let hasty = SendSettings { connect_limit: limit, look_ups: 2, ..settings(&["127.0.0.0/8"]) };
    let sender = Sender::with_resolver(&hasty, Arc::new(Slow)).unwrap();
    let incoming = sender.send(to("http://slow.example/")).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Dns), "its name hangs: {incoming:?}");
    let incoming = sender.send(to("http://well.example/")).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Local(LocalFault::LookUps)), "it waited: {incoming:?}");
}
