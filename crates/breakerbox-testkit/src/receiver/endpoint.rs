//! One path of the receiver: how it responds, and counts of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use tokio::sync::watch;

use super::Behaviour;

/// The counts of requests to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The number of requests received.
    pub requests: u64,
    /// The number of requests that got a success response.
    pub delivered: u64,
    /// The number of requests in flight.
    pub in_flight: u32,
    /// The maximum number of requests in flight at any time.
    pub most_in_flight: u32,
    /// The number of requests whose signature was invalid.
    pub unsigned: u64,
}

pub(super) struct Endpoint {
    pub(super) number: u32,
    pub(super) behaviour: watch::Sender<Behaviour>,
    /// Whether the endpoint has the receiver's default behaviour, and follows changes to that default.
    pub(super) is_ordinary: AtomicBool,
    pub(super) group: AtomicU8,
    requests: AtomicU64,
    delivered: AtomicU64,
    in_flight: AtomicU32,
    most_in_flight: AtomicU32,
    pub(super) unsigned: AtomicU64,
}

impl Endpoint {
    pub(super) fn new(number: u32, behaviour: Behaviour) -> Self {
        Self {
            number,
            behaviour: watch::Sender::new(behaviour),
            is_ordinary: AtomicBool::new(true),
            group: AtomicU8::new(0),
            requests: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            most_in_flight: AtomicU32::new(0),
            unsigned: AtomicU64::new(0),
        }
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            requests: self.requests.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            most_in_flight: self.most_in_flight.load(Ordering::Relaxed),
            unsigned: self.unsigned.load(Ordering::Relaxed),
        }
    }

    /// Resets the maximum number of requests in flight to the current number.
    pub(super) fn forget_most(&self) {
        self.most_in_flight.store(self.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A request in flight. Dropping the value ends the request, even if the caller has disconnected.
pub(super) struct InFlight {
    pub(super) endpoint: Arc<Endpoint>,
    /// The number of earlier requests to this endpoint.
    pub(super) number: u64,
    /// The number of other requests to this endpoint that were in flight when this request started.
    pub(super) beside: u32,
}

impl InFlight {
    pub(super) fn begin(endpoint: Arc<Endpoint>) -> Self {
        let number = endpoint.requests.fetch_add(1, Ordering::Relaxed);
        let beside = endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint.most_in_flight.fetch_max(beside + 1, Ordering::Relaxed);
        Self { endpoint, number, beside }
    }

    pub(super) fn delivered(&self) {
        self.endpoint.delivered.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
