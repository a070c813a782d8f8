//! A hostile tenant that attacks on its own threads until stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox_testkit::receiver::Behaviour;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{AttackKind, Size};
use crate::gateway::site::{Site, create_all};

/// The maximum number of permits requested in one batch.
const BATCH: u32 = 1_000;

/// The number of events in a batch that goes to all endpoints.
const EVENTS: usize = 99;

/// The number of concurrent test requests.
const TESTS: usize = 16;

/// The duration of a request at the hostile tenant's receivers, so that the receivers do not keep the machine
/// busy.
const TAKES: Duration = Duration::from_millis(500);

/// The pause after a rejected request or a closed connection.
const AGAIN: Duration = Duration::from_millis(200);

/// One or more attacks, prepared but not started.
pub(super) struct Attack {
    attack_kinds: Vec<AttackKind>,
    size: Size,
    hostile: Hostile,
}

/// An attack in progress, on its own threads.
pub(super) struct Running {
    runtime: Runtime,
    tally: Arc<Tally>,
}

/// The responses to the attack: the number of responses with each status, and the number of closed connections.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    fn note(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what.into()).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts: Vec<_> = tally.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        f.write_str(&texts.join(", "))
    }
}

/// The hostile tenant's client, and its endpoints.
#[derive(Clone)]
struct Hostile {
    gateway: SocketAddr,
    key: String,
    client: reqwest::Client,
    tally: Arc<Tally>,
    /// The IDs of the endpoints that hang.
    hanging: Vec<String>,
}

impl Attack {
    /// Creates a tenant `hostile` with its own API key, and the endpoints that the attacks need.
    pub(super) fn prepare(site: &Site, attack_kinds: &[AttackKind], size: Size) -> Result<Self> {
        let api = site.api();
        api.create_tenant("hostile", &json!({}))?;
        let key = json!({"name": "hostile", "tenant": "hostile", "scopes": ["manage", "send", "read"]});
        let key = api.post("/v1/keys", &key)?["key"].as_str().context("a key")?.to_owned();
        if attack_kinds.contains(&AttackKind::FanOut) {
            let paths: Vec<String> = (0..size.endpoints).map(|n| format!("/hostile/{n}")).collect();
            paths.iter().for_each(|path| site.receiver.set(path, Behaviour::after(200, TAKES)));
            let urls = paths.iter().map(|path| (site.receiver.url(path), vec!["fan".to_owned()]));
            create_all(api, "hostile", &urls.collect::<Vec<_>>(), &json!({}))?;
        }
        let mut hanging = Vec::new();
        if attack_kinds.contains(&AttackKind::TestSends) {
            site.receiver.set("/hostile/hang", Behaviour::Hang);
            let url = (site.receiver.url("/hostile/hang"), vec!["never".to_owned()]);
            hanging = create_all(api, "hostile", &vec![url; TESTS], &json!({}))?;
        }
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?;
        let (gateway, tally) = (site.gateway.address(), Arc::default());
        let hostile = Hostile { gateway, key, client, tally, hanging };
        Ok(Self { attack_kinds: attack_kinds.to_vec(), size, hostile })
    }

    /// Starts the attack.
    pub(super) fn begin(self) -> Result<Running> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let tally = Arc::clone(&self.hostile.tally);
        for attack_kind in self.attack_kinds {
            let (hostile, size) = (self.hostile.clone(), self.size);
            let _entered = runtime.enter();
            match attack_kind {
                AttackKind::FanOut => drop(tokio::spawn(hostile.fan_out())),
                AttackKind::SlowBodies => {
                    for number in 0..size.slow_bodies {
                        tokio::spawn(hostile.clone().send_slowly(number % 2 == 0));
                    }
                }
                AttackKind::Keys => drop(tokio::spawn(hostile.ask_for_keys(size.keys_per_second))),
                AttackKind::Permits => drop(tokio::spawn(hostile.hoard())),
                AttackKind::Names => drop(tokio::spawn(hostile.call_names(size.names_per_second))),
                AttackKind::Connections => {
                    for number in 0..size.connections {
                        tokio::spawn(hostile.clone().hold_connection(number));
                    }
                }
                AttackKind::TestSends => {
                    for endpoint in &self.hostile.hanging {
                        tokio::spawn(hostile.clone().test(endpoint.clone()));
                    }
                }
            }
        }
        Ok(Running { runtime, tally })
    }
}

impl Running {
    /// Ends the attack, and returns the counts of responses.
    pub(super) fn end(self) -> Arc<Tally> {
        self.runtime.shutdown_background();
        self.tally
    }
}

impl Hostile {
    async fn post(&self, path: &str, body: &Value) -> Option<u16> {
        let url = format!("http://{}{path}", self.gateway);
        let request = self.client.post(url).bearer_auth(&self.key);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let status = match request.send().await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                let _ = answer.bytes().await;
                Some(status)
            }
            Err(_) => None,
        };
        let shown = status.map_or("no answer".to_owned(), |status| status.to_string());
        self.tally.note(format!("{shown} to {}", path.rsplit('/').next().unwrap_or(path)));
        status
    }

    async fn fan_out(self) {
        let events = vec![json!({"type": "fan", "payload": 1}); EVENTS];
        let body = json!({"events": events});
        loop {
            if self.post("/v1/events/batch", &body).await != Some(202) {
                sleep(AGAIN).await;
            }
        }
    }

    /// Sends a batch one byte at a time, chunked or with a content length.
    async fn send_slowly(self, chunked: bool) {
        loop {
            let ended = self.drip(chunked).await;
            self.tally.note(format!("slow body: {}", ended.unwrap_or_else(|error| error.kind().to_string())));
            sleep(AGAIN).await;
        }
    }

    async fn drip(&self, chunked: bool) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.gateway).await?;
        let length = if chunked { "transfer-encoding: chunked" } else { "content-length: 4000000" };
        let head = format!(
            "POST /v1/events/batch HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\n{length}\r\n\r\n",
            self.key
        );
        stream.write_all(head.as_bytes()).await?;
        let piece: &[u8] = if chunked { b"1\r\n \r\n" } else { b" " };
        let mut answer = [0; 12];
        loop {
            stream.write_all(piece).await?;
            if let Ok(read) = timeout(Duration::from_millis(500), stream.read_exact(&mut answer)).await {
                read?;
                return Ok(String::from_utf8_lossy(&answer[9..]).into_owned());
            }
        }
    }

    async fn ask_for_keys(self, per_second: u32) {
        let number = AtomicU64::new(0);
        let mut turns = paced(per_second.div_ceil(BATCH));
        let size = per_second.min(BATCH);
        loop {
            turns.tick().await;
            let one = |_| {
                let number = number.fetch_add(1, Ordering::Relaxed);
                json!({"key": format!("key {number}"), "timeout": "10ms"})
            };
            let items: Vec<Value> = (0..size).map(one).collect();
            self.post("/v1/circuits/acquire/batch", &json!({"items": items})).await;
        }
    }

    async fn hoard(self) {
        let body = json!({"items": vec![json!({"key": "hoard", "timeout": "1h"}); BATCH as usize]});
        let mut turns = paced(10);
        loop {
            turns.tick().await;
            self.post("/v1/circuits/acquire/batch", &body).await;
        }
    }

    async fn call_names(self, per_second: u32) {
        let mut turns = paced(per_second);
        let mut number = 0_u64;
        loop {
            turns.tick().await;
            number += 1;
            let url = format!("http://n{number}.hangs.test/in");
            self.post("/v1/events", &json!({"type": "call", "payload": 1, "url": url})).await;
        }
    }

    /// Holds a connection open. Depending on `number`, the connection sends nothing, only starts HTTP/2, or
    /// makes one request that needs no API key.
    async fn hold_connection(self, number: usize) {
        loop {
            let held = self.hold(number).await;
            self.tally.note(format!(
                "connection: {}",
                held.map_or_else(|error| error.kind().to_string(), |()| "closed".into())
            ));
            sleep(5 * AGAIN).await;
        }
    }

    async fn hold(&self, number: usize) -> std::io::Result<()> {
        let socket = TcpSocket::new_v4()?;
        // Some connections come from the same address as the customer's.
        let last = if number.is_multiple_of(2) { 1 } else { 2 };
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        let mut stream = socket.connect(self.gateway).await?;
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?,
            _ => stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await?,
        }
        let mut some = [0; 1_024];
        while stream.read(&mut some).await? > 0 {}
        Ok(())
    }

    async fn test(self, endpoint: String) {
        loop {
            self.post(&format!("/v1/endpoints/{endpoint}/test"), &json!({})).await;
            sleep(AGAIN).await;
        }
    }
}

fn paced(per_second: u32) -> tokio::time::Interval {
    let mut turns = interval(Duration::from_secs(1) / per_second.max(1));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}
