//! A gateway with its own DNS resolver, so that a test determines how long a lookup takes. Names under
//! `hangs.test` are not answered for a long time; other names under `test` resolve to this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use breakerbox_egress::Resolve;
use breakerbox_gateway::config::Config;
use breakerbox_gateway::gateway::Gateway;
use breakerbox_storage::clock::Clocks;
use clap::Args;

/// The duration of a name lookup that hangs, which is as long as the system's own timeout.
const HANGS: Duration = Duration::from_secs(20);

/// The command-line options, which are the same as the gateway's.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    allow: String,
    #[arg(long)]
    connections: u32,
}

struct Names;

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.ends_with(".hangs.test") {
            tokio::time::sleep(HANGS).await;
            return Err(io::ErrorKind::TimedOut.into());
        }
        if name.ends_with(".test") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Runs a gateway with test host names until the process is killed.
///
/// # Errors
/// Returns an error if the gateway can't start.
#[tokio::main]
pub async fn run(settings: &Settings) -> Result<()> {
    let mut config = Config { data: settings.data.clone(), listen: settings.listen, ..Config::default() };
    config.egress.allow = vec![settings.allow.parse().context("--allow")?];
    config.limits.connections = settings.connections;
    config.limits.disk_reserve = 0;
    let gateway = Gateway::start_resolving(&config, &Clocks::system(), Arc::new(Names)).await?;
    if let Some(first) = gateway.first_start() {
        println!("the admin key is {}", first.admin_key.reveal());
    }
    std::future::pending().await
}
