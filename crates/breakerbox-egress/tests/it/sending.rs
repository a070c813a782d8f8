//! Helpers for tests of outgoing requests: a scripted resolver, settings, requests.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_egress::{AddressPolicy, Incoming, Outgoing, Resolve, SendSettings, Trust};
use breakerbox_model::delivery::{Reply, Target};
use bytes::Bytes;

/// A generous timeout, so that a hanging test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A resolver that returns its answers one after another, and then repeats the last one.
pub(crate) struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

impl Scripted {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |addresses: &&[&str]| addresses.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(answers.iter().map(read).collect())))
    }

    /// Returns the number of answers that were not used yet.
    pub(crate) fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for Scripted {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no such name"))
    }
}

/// Returns settings without the system's certificate authorities, which are slow to load.
pub(crate) fn settings(allowed: &[&str]) -> SendSettings {
    SendSettings {
        addresses: AddressPolicy::allowing(allowed.iter().map(|net| net.parse().unwrap())),
        trust: Trust { system: false, files: Vec::new() },
        ..SendSettings::default()
    }
}

pub(crate) fn to(url: &str) -> Outgoing {
    within(url, LIMIT)
}

pub(crate) fn within(url: &str, limit: Duration) -> Outgoing {
    let target: Target = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    let (headers, body) = (http::HeaderMap::new(), Bytes::from_static(b"{}"));
    Outgoing { target, headers, body, limit, tenant: None }
}

pub(crate) fn is_answered(incoming: &Incoming, expected: u16) -> bool {
    matches!(incoming.reply, Reply::Answered { status, .. } if status == expected)
}
