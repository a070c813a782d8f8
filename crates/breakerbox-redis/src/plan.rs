//! Distributes keys over calls.
//!
//! A call takes many keys, but not all, so that the server can serve other requests in between. In a cluster, a
//! call takes keys from one bucket only.

use std::collections::BTreeMap;

use crate::layout::Bucket;

/// Groups keys into calls with at most `most` keys each. The calls refer to the keys by index. Without keys,
/// returns one empty call, because even an empty response contains the server's time.
pub(crate) fn calls<'a>(
    keys: impl Iterator<Item = &'a str>,
    one_server: bool,
    most: usize,
) -> Vec<(Bucket, Vec<usize>)> {
    let mut by_bucket: BTreeMap<Bucket, Vec<usize>> = BTreeMap::new();
    for (position, key) in keys.enumerate() {
        let bucket = if one_server { Bucket(0) } else { Bucket::of(key) };
        by_bucket.entry(bucket).or_default().push(position);
    }
    if by_bucket.is_empty() {
        return vec![(Bucket(0), Vec::new())];
    }
    let split = |(bucket, positions): (Bucket, Vec<usize>)| {
        let parts: Vec<_> = positions.chunks(most).map(|part| (bucket, part.to_vec())).collect();
        parts
    };
    by_bucket.into_iter().flat_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_gets_few_calls_and_a_cluster_one_for_each_bucket() {
        let keys: Vec<_> = (0..100).map(|n| format!("key {n}")).collect();
        let plan = |one| calls(keys.iter().map(String::as_str), one, 32);
        let sizes: Vec<_> = plan(true).iter().map(|(_, positions)| positions.len()).collect();
        assert_eq!(sizes, [32, 32, 32, 4]);
        let spread = plan(false);
        assert!(spread.len() > 80);
        let mut seen: Vec<_> = spread.iter().flat_map(|(_, positions)| positions.clone()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        for (bucket, positions) in spread {
            assert!(positions.iter().all(|position| Bucket::of(&keys[*position]) == bucket));
        }
        assert_eq!(calls(std::iter::empty(), false, 32), [(Bucket(0), Vec::new())]);
    }
}
