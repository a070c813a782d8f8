//! A gateway that does not store events: it responds with 202, and sends from memory. A test that it passes is
//! worthless.
//!
//! It implements only the part of the API that the tests need. It stores endpoints in a file, but does not
//! store events.

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The command-line options, which are the same as the gateway's.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    allow: Option<String>,
}

/// How long an event waits in memory before it is sent, long enough that a kill loses it.
const WAITS: Duration = Duration::from_millis(30);

struct LossyGateway {
    data: PathBuf,
    client: reqwest::Client,
}

/// Accepts events and delivers them from memory until the process is killed.
///
/// # Errors
/// Returns an error if the address is not available.
#[tokio::main]
pub async fn run(settings: &Settings) -> Result<()> {
    fs::create_dir_all(&settings.data)?;
    println!("the admin key is bbx_lossy");
    let listener = TcpListener::bind(settings.listen).await?;
    let lossy_gateway =
        Arc::new(LossyGateway { data: settings.data.clone(), client: reqwest::Client::new() });
    loop {
        let (stream, lossy_gateway) = (listener.accept().await?.0, Arc::clone(&lossy_gateway));
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let lossy_gateway = Arc::clone(&lossy_gateway);
                async move { Ok::<_, Infallible>(answer(request, lossy_gateway).await) }
            });
            let _ = stream.set_nodelay(true);
            // The caller sees how the connection ends; the server does not need the result.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, lossy_gateway: Arc<LossyGateway>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let (status, answer) = match &*path {
        "/v1/endpoints" => lossy_gateway.keep_endpoint(&body),
        "/v1/events" => lossy_gateway.forget_event(&body),
        "/v1/deliveries" => (404, json!({"code": "not_found"})),
        _ => (200, json!({})),
    };
    let mut response = Response::new(Full::from(answer.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

impl LossyGateway {
    fn endpoints(&self) -> PathBuf {
        self.data.join("endpoints")
    }

    fn keep_endpoint(&self, body: &[u8]) -> (u16, Value) {
        let url = serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|body| Some(body.get("url")?.as_str()?.to_owned()));
        let kept = url.map(|url| append(&self.endpoints(), &url));
        match kept {
            Some(Ok(())) => (201, json!({"id": "ep_1"})),
            _ => (500, json!({})),
        }
    }

    fn forget_event(self: Arc<Self>, body: &[u8]) -> (u16, Value) {
        #[derive(serde::Deserialize)]
        struct Event {
            payload: Box<RawValue>,
        }
        let Ok(Event { payload }) = serde_json::from_slice(body) else { return (422, json!({})) };
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let id = format!("evt_{}", now.as_nanos());
        let name = id.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WAITS).await;
            for url in fs::read_to_string(self.endpoints()).unwrap_or_default().lines() {
                let request =
                    self.client.post(url).header("webhook-id", &name).body(payload.get().to_owned());
                // A failure is neither reported nor retried.
                let _ = request.send().await;
            }
        });
        (202, json!({"id": id, "deliveries": 1}))
    }
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")?;
    file.sync_all()
}
