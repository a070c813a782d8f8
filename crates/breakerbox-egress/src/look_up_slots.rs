//! Slots for DNS look-ups, shared by tenants. They are limited because a look-up that hangs keeps its slot until the
//! resolver gives up.
//!
//! [`Shares`] limits each tenant to a quarter of the slots, or more while other tenants leave some free. A free slot
//! goes to the waiting tenant with the fewest slots, then to the one that has waited longest. Both the number of
//! waiting look-ups and the time that each waits are bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_model::objects::TenantId;
use breakerbox_model::shares::{DEFAULT_SHARE, Shares};
use tokio::sync::oneshot;

/// The maximum number of look-ups that wait for a slot, of which at most a quarter may be for the same tenant.
const MAX_WAITING: usize = 2_048;
/// The maximum time that a look-up waits for a slot.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A tenant, or `None` for the operator.
type Owner = Option<TenantId>;

/// The error if no slot is granted: none became free in time, or too many look-ups are waiting already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoSlot;

/// The slots for DNS look-ups. Clones share the same slots.
#[derive(Clone)]
pub(super) struct LookUpSlots(Arc<Mutex<SlotTable>>);

/// A slot for one look-up, freed on drop.
pub(super) struct LookUpSlot {
    slots: LookUpSlots,
    owner: Owner,
}

struct SlotTable {
    shares: Shares<Owner>,
    /// The waiting look-ups, in order of arrival.
    waiting: Vec<Waiter>,
    waiting_by_owner: HashMap<Owner, usize>,
    next_waiter: u64,
}

struct Waiter {
    number: u64,
    owner: Owner,
    granted: oneshot::Sender<()>,
}

impl LookUpSlots {
    pub(super) fn new(total: usize) -> Self {
        let shares = Shares::new(total.max(1) as u64, DEFAULT_SHARE);
        let (waiting, waiting_by_owner) = (Vec::new(), HashMap::new());
        Self(Arc::new(Mutex::new(SlotTable { shares, waiting, waiting_by_owner, next_waiter: 0 })))
    }

    /// Takes a slot, if one is free for this tenant.
    pub(super) fn try_take(&self, owner: Option<&TenantId>) -> Option<LookUpSlot> {
        let owner = owner.cloned();
        self.lock().take(&owner).then(|| LookUpSlot { slots: self.clone(), owner })
    }

    /// Takes a slot, waiting until one is free for this tenant.
    pub(super) async fn take(&self, owner: Option<&TenantId>) -> Result<LookUpSlot, NoSlot> {
        if let Some(slot) = self.try_take(owner) {
            return Ok(slot);
        }
        let owner = owner.cloned();
        let (number, granted) = self.lock().wait(&owner).ok_or(NoSlot)?;
        let mut waiting = Waiting { slots: self, owner: &owner, number, granted, is_over: false };
        let granted = tokio::time::timeout(MAX_WAIT, &mut waiting.granted).await;
        waiting.is_over = matches!(granted, Ok(Ok(())));
        let is_over = waiting.is_over;
        drop(waiting);
        if is_over { Ok(LookUpSlot { slots: self.clone(), owner }) } else { Err(NoSlot) }
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LookUpSlot {
    fn drop(&mut self) {
        self.slots.lock().release(&self.owner);
    }
}

/// A look-up in the queue. When dropped, it leaves the queue, and frees its slot if it was granted one in the meantime.
struct Waiting<'a> {
    slots: &'a LookUpSlots,
    owner: &'a Owner,
    number: u64,
    granted: oneshot::Receiver<()>,
    /// Whether the look-up has received its slot. If so, `drop` changes nothing.
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut slots = self.slots.lock();
        if !slots.leave(self.number) {
            slots.release(self.owner);
        }
    }
}

impl SlotTable {
    fn take(&mut self, owner: &Owner) -> bool {
        // Look-ups that are already waiting go first.
        !self.waiting_by_owner.contains_key(owner) && self.shares.try_take(owner, 1).is_ok()
    }

    fn wait(&mut self, owner: &Owner) -> Option<(u64, oneshot::Receiver<()>)> {
        let of_owner = self.waiting_by_owner.get(owner).copied().unwrap_or_default();
        if self.waiting.len() >= MAX_WAITING || of_owner >= MAX_WAITING / 4 {
            return None;
        }
        let (granted, receiver) = oneshot::channel();
        let number = self.next_waiter;
        self.next_waiter += 1;
        self.waiting.push(Waiter { number, owner: owner.clone(), granted });
        *self.waiting_by_owner.entry(owner.clone()).or_default() += 1;
        // A slot may have become free since the first try.
        self.grant();
        Some((number, receiver))
    }

    /// Leaves the queue. Returns false if the look-up is no longer in it.
    fn leave(&mut self, number: u64) -> bool {
        let found = self.waiting.binary_search_by_key(&number, |waiter| waiter.number);
        found.is_ok_and(|at| {
            self.remove(at);
            true
        })
    }

    fn remove(&mut self, at: usize) -> Waiter {
        let waiter = self.waiting.remove(at);
        if let Some(count) = self.waiting_by_owner.get_mut(&waiter.owner) {
            *count -= 1;
            if *count == 0 {
                self.waiting_by_owner.remove(&waiter.owner);
            }
        }
        waiter
    }

    fn release(&mut self, owner: &Owner) {
        self.shares.give_back(owner, 1);
        self.grant();
    }

    /// Grants free slots to waiting look-ups whose tenants are below their share. The tenant with the fewest slots goes
    /// first.
    fn grant(&mut self) {
        let may_have =
            |waiter: &Waiter| self.shares.held(&waiter.owner) < self.shares.allowance(&waiter.owner);
        let eligible = self.waiting.iter().enumerate().filter(|(_, waiter)| may_have(waiter));
        let Some((at, _)) = eligible.min_by_key(|(_, waiter)| self.shares.held(&waiter.owner)) else {
            return;
        };
        let owner = self.waiting[at].owner.clone();
        if self.shares.try_take(&owner, 1).is_err() {
            return;
        }
        // A look-up that has stopped waiting frees its slot itself.
        let _ = self.remove(at).granted.send(());
        self.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    fn take_all(slots: &LookUpSlots, owner: &TenantId) -> Vec<LookUpSlot> {
        std::iter::from_fn(|| slots.try_take(Some(owner))).collect()
    }

    #[test]
    fn one_tenant_never_takes_what_the_next_one_needs() {
        let slots = LookUpSlots::new(32);
        let mallory = take_all(&slots, &tenant("mallory"));
        assert_eq!(mallory.len(), 24, "alone it gets more than its quarter, and a quarter stays free");
        let acme = take_all(&slots, &tenant("acme"));
        assert_eq!(acme.len(), 8, "another gets its share at once");
        drop(mallory);
        let operator: Vec<_> = std::iter::from_fn(|| slots.try_take(None)).collect();
        assert_eq!(operator.len(), 16, "and so does the operator");
        drop((acme, operator));
        assert!(slots.lock().shares.is_unused(), "all is given back");
    }

    #[test]
    fn a_small_number_of_places_works_too() {
        for total in 1..=16 {
            let slots = LookUpSlots::new(total);
            assert!(!take_all(&slots, &tenant("acme")).is_empty(), "{total}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_place_goes_to_whoever_has_the_fewest() {
        let slots = LookUpSlots::new(8);
        let (mallory, acme) = (tenant("mallory"), tenant("acme"));
        let mut held = take_all(&slots, &mallory);
        held.extend(take_all(&slots, &tenant("eve")));
        assert_eq!(held.len(), 8, "all are taken");
        let mut more = Box::pin(slots.take(Some(&mallory)));
        let mut innocent = Box::pin(slots.take(Some(&acme)));
        assert!((&mut more).now_or_never().is_none() && (&mut innocent).now_or_never().is_none());
        drop(held.pop());
        assert!((&mut more).now_or_never().is_none(), "it came first, and has more than its share");
        let taken = innocent.now_or_never().expect("there is a place for it");
        assert!(taken.is_ok());
        drop(held);
        assert!(more.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_in_time_and_number() {
        let slots = LookUpSlots::new(2);
        let mallory = tenant("mallory");
        let _held = take_all(&slots, &mallory);
        let waits: Vec<_> = (0..MAX_WAITING / 4 + 1).map(|_| Box::pin(slots.take(Some(&mallory)))).collect();
        let ended = futures_util::future::join_all(waits.into_iter().map(|wait| async move {
            let began = tokio::time::Instant::now();
            (wait.await.err(), began.elapsed())
        }))
        .await;
        assert!(ended.iter().all(|(end, _)| *end == Some(NoSlot)));
        assert_eq!(
            ended.iter().filter(|(_, after)| after.is_zero()).count(),
            1,
            "the last one is refused at once"
        );
        assert!(slots.lock().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_keeps_no_place() {
        let slots = LookUpSlots::new(1);
        let (acme, eve) = (tenant("acme"), tenant("eve"));
        let held = slots.try_take(Some(&acme)).unwrap();
        let mut first = Box::pin(slots.take(Some(&eve)));
        assert!((&mut first).now_or_never().is_none());
        // Granted, but not yet received.
        drop(held);
        drop(first);
        assert!(slots.try_take(Some(&acme)).is_some());
    }
}
