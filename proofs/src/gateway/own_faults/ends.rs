//! Receivers that end connections like ordinary servers: soon after a response, after an idle time that is as
//! long as the interval between two events, with GOAWAY, or by refusing streams. Each event arrives at the
//! first attempt.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Pace};
use breakerbox_testkit::receiver::{Behaviour, Http2End, Http2Receiver, Receiver};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Size, judge_blame};
use crate::gateway::findings::Findings;
use crate::gateway::site::WAIT_LIMIT;

/// The interval between two events at the slow rate. A receiver closes connections that are idle for as long.
const SLOW_INTERVAL: Duration = Duration::from_millis(50);
/// The number of events per second at the fast rate.
const FAST_RATE: f64 = 60.0;
/// The delay between a response and the closing of the connection by the receiver.
const SOON: Duration = Duration::from_millis(5);
/// The number of requests on one HTTP/2 connection that get a response.
const ANSWERS: u32 = 3;

pub(super) fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings =
        Findings::new(format!("ordinary ends of connections, {} events to each receiver", size.events));
    let folder = tempfile::tempdir()?;
    let authority = folder.path().join("authority.pem");
    let acceptor = acceptor(&authority)?;
    let gateway = Settings::new(program).flag("--egress-ca-files", &authority).start()?;
    let (soon, idle) = (Receiver::start()?, Receiver::start()?);
    soon.set("/in", Behaviour::Closes { after: SOON });
    idle.set("/in", Behaviour::Closes { after: SLOW_INTERVAL });
    let go_away = Http2Receiver::start(acceptor.clone(), ANSWERS, Http2End::GoAway)?;
    let refuses = Http2Receiver::start(acceptor, ANSWERS, Http2End::RefuseStreams)?;
    let api = gateway.api();
    api.create_tenant("shop", &json!({}))?;
    let http2 = |receiver: &Http2Receiver| format!("https://{}/in", receiver.address());
    let endpoints = [
        (soon.url("/in"), "often"),
        (idle.url("/in"), "seldom"),
        (http2(&go_away), "often"),
        (http2(&refuses), "often"),
    ];
    for (url, kind) in &endpoints {
        api.create_endpoint("shop", url, &[kind], &json!({}))?;
    }
    let load = |kind, per_second| {
        let event = Event::new("shop", kind);
        Load { pace: Pace::Open { per_second }, requests: size.events, ..api.load(&event) }.start()
    };
    let loads = [load("often", FAST_RATE)?, load("seldom", 1.0 / SLOW_INTERVAL.as_secs_f64())?];
    let accepted: Vec<u64> = loads.into_iter().map(|load| load.finish().successes()).collect();
    let answered = || {
        [
            ("closes 5 ms after its answer", soon.seen("/in").delivered),
            ("closes when idle as long as the interval", idle.seen("/in").delivered),
            ("sends GOAWAY after 3 requests", go_away.answered()),
            ("refuses streams after 3 requests", refuses.answered()),
        ]
    };
    let wanted = [accepted[0], accepted[1], accepted[0], accepted[0]];
    let began = Instant::now();
    let all_arrived = || answered().iter().zip(wanted).all(|((_, answered), wanted)| *answered >= wanted);
    while !all_arrived() && began.elapsed() < WAIT_LIMIT {
        thread::sleep(Duration::from_millis(5));
    }
    for ((name, answered), wanted) in answered().into_iter().zip(wanted) {
        findings.exactly(&format!("answered by one that {name}"), answered, wanted);
    }
    findings.at_least("refused by GOAWAY", go_away.turned_away(), 1);
    findings.at_least("refused streams", refuses.turned_away(), 1);
    let repeated = api.metrics()?.sum("breakerbox_repeated_requests_total");
    findings.note("made again on a fresh connection", repeated.context("there is no count of them")?);
    judge_blame(api, &mut findings)?;
    Ok(findings)
}

/// Returns an HTTP/2 acceptor for 127.0.0.1, and writes its certificate to a file.
fn acceptor(file: &Path) -> Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()])?;
    std::fs::write(file, own.cert.pem())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .context("a certificate of one's own")?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
