//! The open connections, their number per address, and which one to close for a new one if there is no free slot.
//!
//! Every address (for IPv6, every network) has a [share](breakerbox_model::shares) of all connections. A new connection
//! above the limit replaces the oldest one that has no request in flight and has never sent a valid API key: one from
//! the same address if that address is above its share, one from any address if the table is full. If there is none,
//! the new connection is closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_model::shares::{NoShare, Shares};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

/// The number of longest-idle connections to choose from when one must be closed.
const LOOKED_AT: usize = 64;

/// The open connections, their number per client address, and which of them are idle.
pub(super) struct ConnectionTable {
    entries: Mutex<Entries>,
    start: Instant,
}

struct Entries {
    shares: Shares<IpAddr>,
    next: u64,
    /// The idle connections, longest idle first. Each of them may be closed to make room for a new one.
    idle: BTreeMap<u64, Arc<OpenConnection>>,
    idle_of: HashMap<IpAddr, BTreeSet<u64>>,
}

/// One open connection.
pub(in crate::api) struct OpenConnection {
    network: IpAddr,
    /// The connection's key among the idle connections, or 0 if it is not idle.
    place: AtomicU64,
    /// Whether the connection was removed from the table.
    has_left: AtomicBool,
    /// Whether the connection ever sent a valid API key.
    is_known: AtomicBool,
    /// Whether the connection ever sent a request.
    has_spoken: AtomicBool,
    in_flight: AtomicU32,
    /// The time at which the last request ended, in milliseconds since the table was created.
    ended_at: AtomicU64,
    close: Notify,
}

/// A connection's slot in the table, freed on drop.
pub(super) struct Admitted {
    table: Arc<ConnectionTable>,
    pub(super) connection: Arc<OpenConnection>,
}

/// A guard for one request in flight, which ends when the guard is dropped.
pub(super) struct InFlight {
    table: Arc<ConnectionTable>,
    connection: Arc<OpenConnection>,
}

/// How a slot was found for a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// A slot was free.
    Free,
    /// An idle connection was closed for this one.
    Replaced,
}

impl ConnectionTable {
    /// Limits the connections to `most`, of which one address may have the given percentage.
    pub(super) fn new(most: usize, address_share: u32) -> Arc<Self> {
        let entries = Entries {
            shares: Shares::new(most.max(1) as u64, address_share),
            next: 1,
            idle: BTreeMap::new(),
            idle_of: HashMap::new(),
        };
        Arc::new(Self { entries: Mutex::new(entries), start: Instant::now() })
    }

    /// Takes a slot for a new connection from this address.
    ///
    /// # Errors
    /// Returns [`NoShare`] if no slot is free and no connection can be closed.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<(Admitted, Admission), NoShare> {
        let network = network(address);
        let mut entries = self.lock();
        let mut admission = Admission::Free;
        if let Err(why) = entries.shares.try_take(&network, 1) {
            let replaced = match why {
                NoShare::OwnerOver => entries.oldest_of(network),
                NoShare::AllUsed => entries.of_the_greediest(),
            };
            let replaced = replaced.ok_or(why)?;
            entries.close(&replaced);
            entries.shares.hand_over(&replaced.network, &network, 1);
            admission = Admission::Replaced;
        }
        let connection = Arc::new(OpenConnection {
            network,
            place: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            has_spoken: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            ended_at: AtomicU64::new(self.millis()),
            close: Notify::new(),
        });
        entries.rest(&connection);
        drop(entries);
        Ok((Admitted { table: Arc::clone(self), connection }, admission))
    }

    /// Closes the connection that has been idle longest, to free its file descriptor. Returns false if none is idle.
    pub(super) fn close_oldest(&self) -> bool {
        let mut entries = self.lock();
        let Some(oldest) = entries.oldest() else { return false };
        entries.close(&oldest);
        entries.shares.give_back(&oldest.network, 1);
        true
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn oldest(&self) -> Option<Arc<OpenConnection>> {
        self.idle.first_key_value().map(|(_, connection)| Arc::clone(connection))
    }

    /// Among the [`LOOKED_AT`] longest-idle connections, returns one from the address with the most connections. `None`
    /// if no connection is idle.
    fn of_the_greediest(&self) -> Option<Arc<OpenConnection>> {
        let longest = self.idle.values().take(LOOKED_AT).rev();
        longest.max_by_key(|connection| self.shares.held(&connection.network)).cloned()
    }

    fn oldest_of(&self, network: IpAddr) -> Option<Arc<OpenConnection>> {
        let place = self.idle_of.get(&network)?.first()?;
        self.idle.get(place).cloned()
    }

    /// Frees the slot of a connection immediately. The connection's task closes it shortly afterwards.
    fn close(&mut self, connection: &OpenConnection) {
        self.leave_rest(connection);
        connection.has_left.store(true, Ordering::Relaxed);
        connection.close.notify_one();
    }

    /// Marks a connection as idle, so that it may be closed to make room for a new one.
    fn rest(&mut self, connection: &Arc<OpenConnection>) {
        self.leave_rest(connection);
        let place = self.next;
        self.next += 1;
        connection.place.store(place, Ordering::Relaxed);
        self.idle.insert(place, Arc::clone(connection));
        self.idle_of.entry(connection.network).or_default().insert(place);
    }

    fn leave_rest(&mut self, connection: &OpenConnection) {
        let place = connection.place.swap(0, Ordering::Relaxed);
        self.idle.remove(&place);
        if let Some(of_network) = self.idle_of.get_mut(&connection.network) {
            of_network.remove(&place);
            if of_network.is_empty() {
                self.idle_of.remove(&connection.network);
            }
        }
    }
}

impl Admitted {
    /// Records that a request began.
    pub(super) fn begin(&self) -> InFlight {
        let connection = &self.connection;
        connection.has_spoken.store(true, Ordering::Relaxed);
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        if !connection.is_known.load(Ordering::Relaxed) {
            self.table.lock().leave_rest(connection);
        }
        InFlight { table: Arc::clone(&self.table), connection: Arc::clone(connection) }
    }

    /// Returns whether the connection ever sent a request.
    pub(super) fn has_spoken(&self) -> bool {
        self.connection.has_spoken.load(Ordering::Relaxed)
    }

    /// Returns how long the connection has had no request in flight. Zero while a request is in flight.
    pub(super) fn idle_for(&self) -> Duration {
        if self.connection.in_flight.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let ended_at = self.connection.ended_at.load(Ordering::Relaxed);
        Duration::from_millis(self.table.millis().saturating_sub(ended_at))
    }

    /// Completes when the connection must be closed to make room for another.
    pub(super) async fn evicted(&self) {
        self.connection.close.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        entries.leave_rest(&self.connection);
        if !self.connection.has_left.swap(true, Ordering::Relaxed) {
            entries.shares.give_back(&self.connection.network, 1);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.ended_at.store(self.table.millis(), Ordering::Relaxed);
        if connection.is_known.load(Ordering::Relaxed) {
            connection.in_flight.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mut entries = self.table.lock();
        let is_last = connection.in_flight.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && !connection.has_left.load(Ordering::Relaxed) {
            entries.rest(connection);
        }
    }
}

impl OpenConnection {
    /// Records that the client sent a valid API key. From then on, the connection is not closed to make room for
    /// another.
    pub(in crate::api) fn mark_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }
}

/// Returns the address that counts as one client: an IPv4 address, or an IPv6 /64 network, because one host can use all
/// addresses of its network.
pub(in crate::api) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn admit(table: &Arc<ConnectionTable>, last: u8) -> Admitted {
        table.admit(address(last)).unwrap().0
    }

    fn is_closed(admitted: &Admitted) -> bool {
        admitted.connection.has_left.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn an_address_over_its_share_replaces_its_own_oldest_idle_connection() {
        let table = ConnectionTable::new(8, 25);
        let mut flood: Vec<_> = (0..6).map(|_| admit(&table, 1)).collect();
        let others = [admit(&table, 2), admit(&table, 3)];
        flood.push(admit(&table, 1));
        assert!(is_closed(&flood[0]) && !is_closed(&flood[1]));
        assert!(others.iter().all(|other| !is_closed(other)), "others are not touched");
        tokio::time::timeout(Duration::from_secs(5), flood[0].evicted()).await.expect("it hears of it");
    }

    #[tokio::test]
    async fn who_has_a_request_under_way_or_a_key_is_not_replaced() {
        let table = ConnectionTable::new(4, 100);
        let all: Vec<_> = (0..4).map(|_| admit(&table, 1)).collect();
        let under_way = all[0].begin();
        let with_key = all[1].begin();
        all[1].connection.mark_known();
        drop(with_key);
        let fifth = table.admit(address(2)).unwrap();
        assert_eq!(fifth.1, Admission::Replaced);
        assert!(is_closed(&all[2]), "the oldest of those that only wait");
        drop(under_way);
        let sixth = table.admit(address(2)).unwrap();
        assert!(is_closed(&all[3]), "those that waited longer come first");
        let seventh = table.admit(address(2)).unwrap();
        assert!(is_closed(&fifth.0) && !is_closed(&all[0]), "what has just ended is the youngest");
        let busy = [all[0].begin(), sixth.0.begin(), seventh.0.begin()];
        assert_eq!(table.admit(address(3)).err(), Some(NoShare::AllUsed), "nothing can be closed");
        drop((busy, all, fifth, sixth, seventh));
        let entries = table.lock();
        assert_eq!((entries.shares.used(), entries.idle.len(), entries.idle_of.len()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_runs_while_nothing_is_under_way() {
        let table = ConnectionTable::new(4, 25);
        let admitted = admit(&table, 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!((admitted.idle_for(), admitted.has_spoken()), (Duration::from_secs(3), false));
        let request = admitted.begin();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!((admitted.idle_for(), admitted.has_spoken()), (Duration::ZERO, true));
        drop(request);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(admitted.idle_for(), Duration::from_secs(2));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let text = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(text("2001:db8:0:1:ffff::9"), "2001:db8:0:1::");
        assert_eq!(text("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(text("192.0.2.1"), "192.0.2.1");
    }

    #[tokio::test]
    async fn the_oldest_idle_one_can_be_closed_for_its_descriptor() {
        let table = ConnectionTable::new(4, 25);
        assert!(!table.close_oldest());
        let admitted = admit(&table, 1);
        assert!(table.close_oldest());
        assert!(is_closed(&admitted));
        assert!(!table.close_oldest());
    }
}
