//! File descriptors. Every connection, inbound or outbound, takes one, and so does every open file.
//!
//! Many systems start a process with a soft limit of 1,024 and a hard limit of half a million. The soft limit is for programs
//! that use `select`; this one does not, so it raises its own.

use std::fs::File;

use breakerbox_model::delivery::LocalFault;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::local_fault;

/// The number of descriptors reserved for everything but connections: database, listener, log, DNS look-ups.
const MARGIN: u64 = 192;

/// Raises the soft limit on open files to the hard limit, as far as the system allows.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where the hard limit is "infinite" and the system does not allow that many, the soft limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// Returns the maximum number of descriptors for this process. `None` means no limit.
#[must_use]
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns whether the process has used up its descriptors.
#[must_use]
pub fn are_used_up() -> bool {
    File::open("/dev/null").is_err_and(|error| local_fault(&error) == Some(LocalFault::Descriptors))
}

/// The numbers of descriptors that the settings require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The maximum number of connections to the API (`limits.connections`).
    pub connections: usize,
    /// The maximum number of requests in flight (`delivery.slots`).
    pub slots: usize,
    /// The maximum number of idle connections to receivers that are kept for reuse.
    pub kept: usize,
}

/// The connection limits that fit within the number of descriptors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shares {
    /// The maximum number of connections to the API.
    pub connections: usize,
    /// The maximum number of connections to receivers that are kept for reuse.
    pub kept: usize,
    /// The reason why the settings do not fit, and what to do. `None` if they fit.
    pub shortfall: Option<String>,
}

/// Divides the available file descriptors between API connections and deliveries. If there are too few, the API gets
/// fewer connections, so that clients can't take the descriptors that deliveries need.
///
/// ```
/// use breakerbox_egress::host::descriptors::{Wanted, share};
///
/// let wanted = Wanted { connections: 4_096, slots: 512, kept: 1_024 };
/// assert_eq!(share(Some(500_000), wanted).shortfall, None);
/// let shares = share(Some(1_024), wanted);
/// assert_eq!((shares.connections, shares.kept), (256, 128));
/// assert!(shares.shortfall.is_some());
/// ```
#[must_use]
pub fn share(limit: Option<u64>, wanted: Wanted) -> Shares {
    let Wanted { connections, slots, kept } = wanted;
    let needed = (connections as u64).saturating_add(slots as u64).saturating_add(kept as u64 + MARGIN);
    let limit = limit.unwrap_or(u64::MAX);
    if needed <= limit {
        return Shares { connections, kept, shortfall: None };
    }
    let at_most =
        |part: u64, wanted: usize| usize::try_from(part).unwrap_or(usize::MAX).clamp(1, wanted.max(1));
    let kept = at_most(limit / 8, kept);
    let others = (slots as u64).saturating_add(kept as u64 + MARGIN);
    let left = limit.saturating_sub(others).max(limit / 4);
    let fitting = at_most(left, connections);
    let shortfall = format!(
        "descriptors: the limit of {limit} open files is less than the {needed} that the settings need, so the API takes \
         {fitting} connections and not {connections}; raise the limit (LimitNOFILE=, ulimit -n), or lower limits.connections"
    );
    Shares { connections: fitting, kept, shortfall: Some(shortfall) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { connections: 4_096, slots: 512, kept: 1_024 };

    #[test]
    fn what_fits_is_left_alone() {
        let needed = 4_096 + 512 + 1_024 + MARGIN;
        for limit in [None, Some(needed), Some(u64::MAX)] {
            let shares = share(limit, WANTED);
            assert_eq!(
                (shares.connections, shares.kept, shares.shortfall),
                (4_096, 1_024, None),
                "{limit:?}"
            );
        }
        assert!(share(Some(needed - 1), WANTED).shortfall.is_some());
    }

    #[test]
    fn clients_never_get_what_deliveries_need() {
        for limit in [2_000, 3_000, 5_000] {
            let Shares { connections, kept, shortfall } = share(Some(limit), WANTED);
            assert!(
                connections as u64 + 512 + kept as u64 + MARGIN <= limit,
                "{limit}: {connections}, {kept}"
            );
            let shortfall = shortfall.unwrap();
            assert!(shortfall.contains(&format!("takes {connections} connections")), "{shortfall}");
        }
        let tiny = share(Some(64), WANTED);
        assert_eq!((tiny.connections, tiny.kept), (16, 8), "even the smallest gateway answers");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert!(!are_used_up());
    }
}
