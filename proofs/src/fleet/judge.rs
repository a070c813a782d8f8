//! Checks the requests that the receiver saw in one recovery. All functions here are pure.

use super::receiver::Visit;

/// All requests in one recovery, in the order in which they started.
#[derive(Debug)]
pub struct Seen(pub Vec<Visit>);

impl Seen {
    /// Returns the number of requests that overlapped with another request before the circuit was closed.
    #[must_use]
    pub fn overlaps(&self, probes: u32) -> usize {
        let closed = self.closed_after(probes);
        let is_early = |n: usize| closed.is_none_or(|closed| n <= closed) || self.0[n].claims_to_probe;
        (0..self.0.len()).filter(|n| is_early(*n) && self.0[*n].beside > 0).count()
    }

    /// Returns whether more than one process probed.
    #[must_use]
    pub fn is_by_several(&self) -> bool {
        let mut probers = self.0.iter().filter(|visit| visit.claims_to_probe).map(|visit| visit.worker);
        let first = probers.next();
        probers.any(|prober| Some(prober) != first)
    }

    /// Returns the index of the request whose success closes the circuit.
    fn closed_after(&self, probes: u32) -> Option<usize> {
        let last = usize::try_from(probes).ok()?.checked_sub(1)?;
        (last < self.0.len()).then_some(last)
    }
}

/// Returns the deviations from the guarantee that a recovery consists of exactly `probes` probes, one after
/// another, with no other request until the last probe was answered.
///
/// The first requests must be the probes, according to the receiver's times. A later request may be a regular
/// call, if it is declared as one and started after the last probe was answered. `claimed` is the number of
/// probes that the workers counted.
#[must_use]
pub fn judge(seen: &Seen, probes: u32, claimed: u64) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(last) = seen.closed_after(probes) else {
        return vec![format!("{} requests, and {probes} probes are needed to close", seen.0.len())];
    };
    for (n, visit) in seen.0.iter().enumerate() {
        let who = format!("request {} (worker {})", n + 1, visit.worker);
        if n <= last {
            if !visit.claims_to_probe {
                faults.push(format!("{who} came before the circuit was closed, and was no probe"));
            }
            if visit.beside > 0 {
                faults.push(format!("{who} came while {} others were there", visit.beside));
            }
            if visit.status != Some(200) {
                faults.push(format!("{who} was answered with {:?}", visit.status));
            }
        } else if visit.claims_to_probe {
            faults.push(format!("{who} was one probe too many"));
        } else if seen.0[last].ended.is_none_or(|ended| visit.began < ended) {
            faults.push(format!("{who} began before the last probe was answered"));
        }
    }
    if claimed != u64::from(probes) {
        faults.push(format!("the workers say that there were {claimed} probes"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn visit(claims_to_probe: bool, began: u64, ended: u64, beside: usize) -> Visit {
        let (began, ended, status) = (at(began), Some(at(ended)), Some(200));
        Visit { worker: 1, claims_to_probe, began, ended, beside, status }
    }

    #[test]
    fn tells_what_is_not_as_promised() {
        let probe = |began, ended, beside| visit(true, began, ended, beside);
        let call = |began, ended, beside| visit(false, began, ended, beside);
        let unanswered = Visit { status: None, ..probe(0, 10, 0) };
        // The requests seen, the number of probes needed, and the expected numbers of faults and overlaps.
        let table = [
            (vec![probe(0, 10, 0)], 1, 0, 0),
            (vec![probe(0, 10, 0), call(11, 21, 0), call(12, 22, 1)], 1, 0, 0),
            (vec![probe(0, 10, 0), probe(11, 21, 0), call(30, 40, 0)], 2, 0, 0),
            (vec![], 1, 1, 0),
            (vec![probe(0, 10, 0)], 2, 1, 0),
            (vec![probe(0, 10, 0), probe(5, 15, 1)], 1, 2, 1),
            (vec![probe(0, 10, 0), probe(11, 21, 0)], 1, 2, 0),
            (vec![probe(0, 10, 0), probe(5, 15, 1)], 2, 1, 1),
            (vec![probe(0, 10, 0), call(5, 15, 1)], 1, 1, 0),
            (vec![call(0, 10, 0), probe(11, 21, 0)], 1, 2, 0),
            (vec![unanswered], 1, 1, 0),
        ];
        for (n, (visits, probes, faults, overlaps)) in table.into_iter().enumerate() {
            let claimed = u64::try_from(visits.iter().filter(|visit| visit.claims_to_probe).count()).unwrap();
            let seen = Seen(visits);
            let found = judge(&seen, probes, claimed);
            assert_eq!(found.len() - usize::from(n == 4), faults - usize::from(n == 4), "{n}: {found:?}");
            assert_eq!(seen.overlaps(probes), overlaps, "{n}");
        }
    }

    #[test]
    fn the_workers_word_must_fit() {
        assert_eq!(judge(&Seen(vec![visit(true, 0, 10, 0)]), 1, 2).len(), 1);
    }
}
