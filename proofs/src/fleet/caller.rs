//! A worker's HTTP calls to the receiver. Each carries the worker's number and whether the worker considers it
//! a probe.

use std::time::Duration;

use anyhow::{Result, bail};
use reqwest::Client;

use super::mode::Mode;
use super::receiver::{KIND, WORKER};
use super::worker::Settings;

#[derive(Clone)]
pub(super) struct Caller {
    client: Client,
    receiver: String,
    number: u32,
    mode: Mode,
}

impl Caller {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let limit = Duration::from_millis(settings.call_timeout_ms);
        let client = Client::builder().timeout(limit).no_proxy().tcp_nodelay(true).build()?;
        let Settings { receiver, number, mode, .. } = settings;
        Ok(Self { client, receiver: receiver.clone(), number: *number, mode: *mode })
    }

    /// Returns whether the worker waits after each call until the store has merged the outcome, as it does in
    /// strict mode.
    pub(super) fn waits_for_the_store(&self) -> bool {
        self.mode == Mode::Strict
    }

    /// Makes a call, and returns the response's HTTP status.
    pub(super) async fn call(&self, path: &str, is_probe: bool) -> Result<u16> {
        let call = self.client.post(format!("{}{path}", self.receiver));
        let kind = if is_probe { "probe" } else { "call" };
        Ok(call.header(WORKER, self.number).header(KIND, kind).send().await?.status().as_u16())
    }

    pub(super) fn succeeded(status: u16) -> Result<u16> {
        if !(200..300).contains(&status) {
            bail!("{status}");
        }
        Ok(status)
    }
}
