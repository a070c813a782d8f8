//! Destinations: everything that the requests of one lane need, built once and cached until the tenant or the endpoint
//! changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use breakerbox::throttle::{Throttle, Throttles};
use breakerbox::{Breakerbox, Circuit, KeyError};
use breakerbox_core::Timestamp;
use breakerbox_egress::Outgoing;
use breakerbox_model::delivery::{
    LastAttempt, ResponseRules, RetrySchedule, Signer, Target, TokenBucket, WEBHOOK_EVENT_TYPE,
};
use breakerbox_model::objects::{
    CircuitOwner, DisabledBecause, EventType, Id, LaneId, Moment, Purpose, RateLimit, SigningSecrets,
    TenantId,
};
use breakerbox_model::reminder::Missed;
use breakerbox_storage::{Directory, EndpointEntry, Leased, TenantEntry, WaitingLane};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The `User-Agent` that receivers see.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("Breakerbox/", env!("CARGO_PKG_VERSION")));

/// The header with the time that a reminder's callback was scheduled for, in RFC 3339.
const SCHEDULED_AT: HeaderName = HeaderName::from_static("breakerbox-scheduled-at");

/// The settings for all requests of a lane.
struct LaneSettings {
    timeout: Duration,
    max_in_flight: u32,
    retry: Arc<RetrySchedule>,
    response_rules: Arc<ResponseRules>,
}

impl LaneSettings {
    fn of_endpoint(endpoint: &EndpointEntry) -> Self {
        Self {
            timeout: endpoint.timeout,
            max_in_flight: endpoint.max_in_flight,
            retry: Arc::clone(&endpoint.retry),
            response_rules: Arc::clone(&endpoint.tenant.response_rules),
        }
    }

    /// Returns the settings for a dynamic lane, which come from its tenant.
    fn of_tenant(tenant: &TenantEntry, purpose: Purpose) -> Self {
        let reminders = &tenant.reminders;
        match purpose {
            Purpose::Deliveries => Self {
                timeout: tenant.timeout,
                max_in_flight: tenant.max_in_flight,
                retry: Arc::clone(&tenant.retry),
                response_rules: Arc::clone(&tenant.response_rules),
            },
            Purpose::Reminders => Self {
                timeout: reminders.timeout,
                max_in_flight: reminders.max_in_flight,
                retry: Arc::clone(&reminders.retry),
                response_rules: Arc::clone(&reminders.response_rules),
            },
        }
    }
}

/// A signer, and the wall-clock period in which its secrets are active.
struct TimedSigner {
    signer: Arc<Signer>,
    since: Timestamp,
    until: Option<Timestamp>,
}

/// The destination of a lane: URL, headers, signer, circuit, throttle and rate limit.
pub(super) struct Destination {
    pub(super) lane: LaneId,
    pub(super) tenant: Arc<TenantEntry>,
    /// The lane's endpoint. `None` for a dynamic lane, whose deliveries contain their own URL.
    pub(super) endpoint: Option<Arc<EndpointEntry>>,
    settings: LaneSettings,
    /// The endpoint's parsed URL. `None` for a dynamic lane, or if the URL is invalid.
    target: Option<Target>,
    pub(super) circuit: Circuit,
    pub(super) throttle: Option<Throttle>,
    /// Whether the circuit's record has been read from the store. Until then, the circuit may be open without this
    /// process knowing it.
    met: AtomicBool,
    rate: Option<Mutex<TokenBucket>>,
    headers: HeaderMap,
    secrets: Arc<SigningSecrets>,
    /// The signer for the currently active secrets. `None` before the first request.
    signer: Mutex<Option<TimedSigner>>,
}

impl Destination {
    /// Returns the key of the destination's circuit.
    pub(super) fn key(&self) -> &str {
        self.circuit.key()
    }

    /// Returns the request timeout.
    pub(super) const fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Returns the maximum number of requests in flight.
    pub(super) const fn max_in_flight(&self) -> u32 {
        self.settings.max_in_flight
    }

    pub(super) fn schedule(&self) -> &RetrySchedule {
        &self.settings.retry
    }

    /// Returns the rules that decide what a response means.
    pub(super) fn response_rules(&self) -> &ResponseRules {
        &self.settings.response_rules
    }

    /// Returns whether both tenant and endpoint are enabled.
    pub(super) fn is_enabled(&self) -> bool {
        let disabled: Option<DisabledBecause> = self.endpoint.as_ref().and_then(|endpoint| endpoint.disabled);
        self.tenant.enabled && disabled.is_none()
    }

    /// Returns whether the destination has a circuit and a throttle. If the memory for them was full, it has none.
    fn is_controlled(&self) -> bool {
        self.circuit.is_controlled() && self.throttle.as_ref().is_none_or(Throttle::is_controlled)
    }

    /// Returns whether the circuit's record has been read from the store.
    pub(super) fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// Marks the circuit's record as read from the store.
    pub(super) fn meet(&self) {
        self.met.store(true, Ordering::Relaxed);
    }

    /// Locks the bucket of the rate limit. `None` if there is no rate limit.
    pub(super) fn rate(&self) -> Option<MutexGuard<'_, TokenBucket>> {
        self.rate.as_ref().map(|rate| rate.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Builds the request for a delivery. Returns `None` if the URL, which was checked when it was accepted, can no
    /// longer be parsed. `stands_for` is set if a reminder's run serves a later occurrence than the one that it was
    /// fired for.
    pub(super) fn request(
        &self,
        leased: &Leased,
        stands_for: Option<Missed>,
        limit: Duration,
        now: Timestamp,
    ) -> Option<Outgoing> {
        let target = match &leased.url {
            Some(url) => url.parse().ok()?,
            None => self.target.clone()?,
        };
        let mut headers = self.signed(&leased.webhook_id(), &leased.payload, &leased.content_type, now);
        add_type(&mut headers, &leased.kind);
        if let Some(run) = &leased.run {
            let scheduled_at = stands_for.map_or(run.scheduled_at, |missed| missed.latest);
            if let Ok(text) = HeaderValue::from_str(&Moment(scheduled_at).to_string()) {
                headers.insert(SCHEDULED_AT, text);
            }
        }
        Some(self.outgoing(target, headers, leased.payload.clone(), limit))
    }

    /// Builds a test request, which does not belong to a delivery.
    pub(super) fn test_request(
        &self,
        kind: &EventType,
        body: Bytes,
        content_type: &str,
        now: Timestamp,
    ) -> Option<Outgoing> {
        let id = format!("test_{}", Id::first_at(now));
        let mut headers = self.signed(&id, &body, content_type, now);
        add_type(&mut headers, kind);
        Some(self.outgoing(self.target.clone()?, headers, body, self.timeout()))
    }

    fn outgoing(&self, target: Target, headers: HeaderMap, body: Bytes, limit: Duration) -> Outgoing {
        Outgoing { target, headers, body, limit, tenant: Some(self.tenant.id.clone()) }
    }

    fn signed(&self, id: &str, payload: &[u8], content_type: &str, now: Timestamp) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Ok(content_type) = HeaderValue::from_str(content_type) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        self.signer(now).add_to(&mut headers, id, now.as_micros() / 1_000_000, payload);
        headers
    }

    fn signer(&self, now: Timestamp) -> Arc<Signer> {
        let mut kept = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && kept.since <= now
            && kept.until.is_none_or(|until| now < until)
        {
            return Arc::clone(&kept.signer);
        }
        let active: Vec<_> = self.secrets.active(now).cloned().collect();
        let signer = Arc::new(Signer::new(&active));
        let until = self.secrets.iter().filter_map(|secret| secret.until).filter(|until| now < *until).min();
        *kept = Some(TimedSigner { signer: Arc::clone(&signer), since: now, until });
        signer
    }
}

/// Adds the event's type to the headers of a request.
fn add_type(headers: &mut HeaderMap, kind: &EventType) {
    if let Ok(kind) = HeaderValue::from_str(kind.as_str()) {
        headers.insert(WEBHOOK_EVENT_TYPE, kind);
    }
}

/// Decodes the purpose of a dynamic lane from its circuit's key.
fn purpose_of(key: &str) -> Purpose {
    CircuitOwner::of_key(key).map_or(Purpose::Deliveries, |owner| owner.purpose)
}

/// Caches destinations by lane.
pub(super) struct Destinations {
    directory: Arc<Directory>,
    breakers: Breakerbox,
    throttles: Option<Throttles>,
    known: RwLock<HashMap<LaneId, Arc<Destination>>>,
    /// Rate-limit buckets of endpoints that changed, kept so that a change does not refill them.
    buckets: Mutex<HashMap<LaneId, TokenBucket>>,
    /// Whether a circuit or a throttle could not be created for lack of memory. Removing idle destinations may free
    /// memory.
    lacks_room: AtomicBool,
}

impl Destinations {
    pub(super) fn new(directory: Arc<Directory>, breakers: Breakerbox, throttles: Option<Throttles>) -> Self {
        Self {
            directory,
            breakers,
            throttles,
            known: RwLock::default(),
            buckets: Mutex::default(),
            lacks_room: AtomicBool::new(false),
        }
    }

    /// Returns the destination of a lane, or `None` if its endpoint or tenant was deleted.
    ///
    /// `key` is the circuit's key, for a dynamic lane.
    pub(super) fn find(
        &self,
        lane: LaneId,
        tenant: &TenantId,
        key: impl FnOnce() -> Option<Arc<str>>,
        now: Timestamp,
    ) -> Option<Arc<Destination>> {
        let found = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&lane).cloned();
        if let Some(found) = found {
            // A destination without a circuit is rebuilt each time, since there may be memory for one by now.
            if found.is_controlled() || !self.has_room_for(found.key()) {
                return Some(found);
            }
            self.forget(lane);
        }
        let made = match self.directory.endpoint(lane) {
            Some(endpoint) => self.of_endpoint(endpoint).map(|made| self.limited(made, now)),
            None => self.of_dynamic(lane, self.directory.tenant(tenant)?, key()?),
        };
        let made = Arc::new(made.ok()?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(known.entry(lane).or_insert(made)))
    }

    /// Returns whether a circuit and a throttle with this key can be created now.
    fn has_room_for(&self, key: &str) -> bool {
        let has_circuit = self.breakers.circuit(key).is_ok_and(|circuit| circuit.is_controlled());
        let throttle = self.throttle(key).ok().flatten();
        let has_room = has_circuit && throttle.is_none_or(|throttle| throttle.is_controlled());
        if !has_room {
            self.lacks_room.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Returns whether, since this method was last called, a circuit or a throttle could not be created for lack of
    /// memory.
    pub(super) fn lacked_room(&self) -> bool {
        self.lacks_room.swap(false, Ordering::Relaxed)
    }

    /// Returns the in-flight limit of a lane, or `None` if its endpoint or tenant was deleted. Does not build the
    /// destination, since a lane that only waits does not need it yet.
    pub(super) fn max_in_flight(&self, waiting: &WaitingLane) -> Option<u32> {
        if let Some(endpoint) = self.directory.endpoint(waiting.lane) {
            return Some(endpoint.max_in_flight);
        }
        let tenant = self.directory.tenant(&waiting.tenant)?;
        Some(LaneSettings::of_tenant(&tenant, purpose_of(waiting.dynamic.as_ref()?)).max_in_flight)
    }

    /// Builds a destination for a test request to this endpoint. It is not cached, and has no rate limit.
    pub(super) fn apart(&self, endpoint: Arc<EndpointEntry>) -> Result<Destination, KeyError> {
        self.of_endpoint(endpoint)
    }

    /// Adds the endpoint's rate limit, if it has one. Tokens used before a change of the endpoint stay used.
    fn limited(&self, made: Destination, now: Timestamp) -> Destination {
        let limit = made.endpoint.as_ref().and_then(|endpoint| endpoint.rate);
        let rate = limit.map(|limit| Mutex::new(self.bucket(made.lane, limit, now)));
        Destination { rate, ..made }
    }

    fn of_endpoint(&self, endpoint: Arc<EndpointEntry>) -> Result<Destination, KeyError> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, AGENT);
        endpoint.headers.add_to(&mut headers);
        Ok(Destination {
            lane: endpoint.lane(),
            target: Target::new(&endpoint.url).ok(),
            circuit: self.breakers.circuit(&endpoint.circuit)?,
            throttle: self.throttle(&endpoint.circuit)?,
            met: AtomicBool::new(false),
            rate: None,
            headers,
            secrets: Arc::clone(&endpoint.secrets),
            signer: Mutex::default(),
            tenant: Arc::clone(&endpoint.tenant),
            settings: LaneSettings::of_endpoint(&endpoint),
            endpoint: Some(endpoint),
        })
    }

    fn of_dynamic(
        &self,
        lane: LaneId,
        tenant: Arc<TenantEntry>,
        key: Arc<str>,
    ) -> Result<Destination, KeyError> {
        let purpose = purpose_of(&key);
        Ok(Destination {
            lane,
            target: None,
            circuit: self.breakers.circuit(&key)?,
            throttle: self.throttle(&key)?,
            met: AtomicBool::new(false),
            rate: None,
            headers: HeaderMap::from_iter([(USER_AGENT, AGENT)]),
            secrets: Arc::clone(&tenant.secrets),
            signer: Mutex::default(),
            settings: LaneSettings::of_tenant(&tenant, purpose),
            tenant,
            endpoint: None,
        })
    }

    fn throttle(&self, key: &str) -> Result<Option<Throttle>, KeyError> {
        self.throttles.as_ref().map(|throttles| throttles.throttle(key)).transpose()
    }

    fn bucket(&self, lane: LaneId, limit: RateLimit, now: Timestamp) -> TokenBucket {
        let kept = self.buckets.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        match kept {
            Some(mut bucket) => {
                bucket.change(limit, now);
                bucket
            }
            None => TokenBucket::new(limit),
        }
    }

    /// Removes a lane's destination because its endpoint changed. The destination is rebuilt when it is next used.
    pub(super) fn forget(&self, lane: LaneId) -> Option<Arc<Destination>> {
        let gone = self.known.write().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        if let Some(bucket) = gone.as_ref().and_then(|gone| gone.rate()) {
            self.buckets.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, *bucket);
        }
        gone
    }

    /// Removes the destination of a lane whose endpoint was deleted.
    pub(super) fn drop_lane(&self, lane: LaneId) -> Option<Arc<Destination>> {
        let gone = self.forget(lane);
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        gone
    }

    /// Records an attempt as the latest one of the destination's endpoint and circuit.
    pub(super) fn note_attempt(&self, destination: &Destination, attempt: LastAttempt) {
        self.directory.note_attempt(destination.lane, destination.key(), attempt);
    }

    /// Returns whether any endpoint uses this circuit.
    pub(super) fn has_circuit(&self, key: &str) -> bool {
        self.directory.has_circuit(key)
    }

    /// Removes the destinations of a tenant's dynamic lanes because the tenant changed.
    pub(super) fn forget_dynamic(&self, tenant: &TenantId) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, destination| destination.endpoint.is_some() || destination.tenant.id != *tenant);
    }

    /// Removes destinations of lanes that are no longer needed.
    pub(super) fn tidy(&self, is_needed: impl Fn(LaneId) -> bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|lane, _| is_needed(*lane));
    }
}
