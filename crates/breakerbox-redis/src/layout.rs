//! The data layout in Redis: the names of all keys, and the bucket of each circuit.
//!
//! | key | type | contents |
//! | --- | --- | --- |
//! | `breakerbox:{417}:record:<key>` | hash | `record` as JSON; in addition `version`, `epoch` and `status`, for the scripts |
//! | `breakerbox:{417}:window:<key>` | hash | the counts of each window bucket, by the bucket's start time; the latest success and the run of failures after it |
//! | `breakerbox:{417}:ramp:<key>` | hash | the ramp of a circuit that has just closed: its limit, and the calls in flight |
//! | `breakerbox:{417}:circuits` | sorted set | the keys in the bucket that have a record, sorted |
//! | `breakerbox:{417}:states` | sorted set | the same keys, as `<state>:<key>` |
//! | `breakerbox:{417}:expiries` | sorted set | the same keys, by the time at which their record may expire |
//! | `breakerbox:{417}:term:<name>` | hash | a leader's term |
//! | `breakerbox:{417}:write_check` | hash | no data: written to check that writes are accepted, in one bucket of each master |
//! | `breakerbox:{417}:changes` | channel | in a cluster: the new records of this bucket, and calls for reports |
//! | `breakerbox:changes` | channel | with a single server: all new records, and calls for reports |
//!
//! `417` is the bucket and the hash tag, so all keys that one script accesses are in one hash slot. A bucket is
//! the CRC16 of the circuit's key, modulo 1,024: the same in every process and version. It can't change without
//! moving all data.

use std::fmt;

/// The number of buckets over which circuits are distributed.
pub(crate) const BUCKETS: u16 = 1_024;

/// The number of hash slots in a Redis Cluster.
const SLOTS: u16 = 16_384;

/// The number of a bucket, 0 to 1,023.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Bucket(pub(crate) u16);

impl Bucket {
    /// Returns the bucket for a circuit's key, or for the name of a leader election.
    pub(crate) fn of(key: &str) -> Self {
        Self(crc16(key.as_bytes()) % BUCKETS)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..BUCKETS).map(Self)
    }

    /// Returns the hash slot that contains all keys of the bucket.
    pub(crate) fn slot(self) -> u16 {
        crc16(self.0.to_string().as_bytes()) % SLOTS
    }
}

/// Builds the names of all keys and channels, with the store's namespace as the prefix.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    namespace: String,
}

impl Layout {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    pub(crate) fn record(&self, key: &str) -> String {
        self.of(Bucket::of(key), format_args!("record:{key}"))
    }

    pub(crate) fn window(&self, key: &str) -> String {
        self.of(Bucket::of(key), format_args!("window:{key}"))
    }

    pub(crate) fn ramp(&self, key: &str) -> String {
        self.of(Bucket::of(key), format_args!("ramp:{key}"))
    }

    pub(crate) fn term(&self, name: &str) -> String {
        self.of(Bucket::of(name), format_args!("term:{name}"))
    }

    pub(crate) fn circuits(&self, bucket: Bucket) -> String {
        self.of(bucket, format_args!("circuits"))
    }

    pub(crate) fn states(&self, bucket: Bucket) -> String {
        self.of(bucket, format_args!("states"))
    }

    pub(crate) fn expiries(&self, bucket: Bucket) -> String {
        self.of(bucket, format_args!("expiries"))
    }

    pub(crate) fn write_check(&self, bucket: Bucket) -> String {
        self.of(bucket, format_args!("write_check"))
    }

    /// Returns the channel for all changes, on a single server.
    pub(crate) fn changes(&self) -> String {
        format!("{}:changes", self.namespace)
    }

    /// Returns the channel for the changes in one bucket, in a cluster.
    pub(crate) fn changes_in(&self, bucket: Bucket) -> String {
        self.of(bucket, format_args!("changes"))
    }

    fn of(&self, Bucket(bucket): Bucket, rest: fmt::Arguments<'_>) -> String {
        format!("{}:{{{bucket}}}:{rest}", self.namespace)
    }
}

/// Computes the CRC16 checksum (XMODEM) that Redis Cluster uses for hash slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_slots_never_change() {
        assert_eq!(crc16(b"123456789"), 0x31c3, "the check value of the published algorithm");
        assert_eq!(Bucket::of("acme https://hooks.acme.example/in"), Bucket(524));
        assert_eq!(Bucket(524).slot(), 15_221);
        let names = Layout::new("breakerbox");
        assert_eq!(names.record("a {b}"), "breakerbox:{584}:record:a {b}");
        assert_eq!(names.changes_in(Bucket(7)), "breakerbox:{7}:changes");
    }

    #[test]
    fn buckets_spread_over_slots_and_keys_over_buckets() {
        let slots: std::collections::HashSet<_> = Bucket::all().map(Bucket::slot).collect();
        assert_eq!(slots.len(), 1_024, "no two buckets share a slot");
        let mut counts = vec![0_u32; BUCKETS.into()];
        (0..102_400).for_each(|n| counts[usize::from(Bucket::of(&format!("https://{n}.example")).0)] += 1);
        assert!(counts.iter().all(|count| (50..=150).contains(count)), "about a hundred each");
    }
}
