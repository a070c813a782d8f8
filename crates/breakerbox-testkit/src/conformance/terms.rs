//! Leaders' terms: one leader at a time.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::Term;

use super::{AnyStore, WAIT_LIMIT, at_once, unique};

const LONG: Duration = Duration::from_secs(600);

async fn lead(store: &AnyStore, name: &str, candidate: u64, ttl: Duration) -> Term {
    store.lead(name, Nonce(candidate.into()), ttl).await.expect("the store answers").value
}

/// Exactly one candidate leads, for any number of concurrent candidates.
pub async fn of_candidates_at_once_one_leads(store: AnyStore) {
    let name = unique("election");
    let terms = at_once(50, |n| {
        let (store, name) = (Arc::clone(&store), name.clone());
        async move { lead(&store, &name, n, LONG).await }
    })
    .await;
    assert_eq!(terms.iter().filter(|term| term.leads).count(), 1);
    let ends: std::collections::HashSet<_> = terms.iter().map(|term| term.ends_at).collect();
    assert_eq!(ends.len(), 1, "and all know until when");
    assert!(lead(&store, &unique("another"), 1, LONG).await.leads, "another name is another office");
}

/// A term continues as long as its leader renews it.
pub async fn a_leader_prolongs_its_term(store: AnyStore) {
    let name = unique("prolonged");
    let first = lead(&store, &name, 1, LONG).await;
    let second = lead(&store, &name, 1, LONG * 2).await;
    assert!(first.leads && second.leads && second.ends_at > first.ends_at);
    let other = lead(&store, &name, 2, LONG).await;
    assert_eq!(other, Term { leads: false, ends_at: second.ends_at });
}

/// A leader that died or resigned does not block the election of the next leader.
pub async fn a_term_that_ends_or_is_given_back_is_free(store: AnyStore) {
    let name = unique("free");
    assert!(lead(&store, &name, 1, Duration::from_millis(5)).await.leads);
    let limit = std::time::Instant::now() + WAIT_LIMIT;
    while !lead(&store, &name, 2, LONG).await.leads {
        assert!(std::time::Instant::now() < limit, "a term ends");
        tokio::task::yield_now().await;
    }
    assert!(!lead(&store, &name, 1, Duration::ZERO).await.leads, "nobody gives back another's term");
    assert!(!lead(&store, &name, 1, LONG).await.leads);
    assert!(!lead(&store, &name, 2, Duration::ZERO).await.leads, "one's own ends at once");
    assert!(lead(&store, &name, 1, LONG).await.leads);
}
