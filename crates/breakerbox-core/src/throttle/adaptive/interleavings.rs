//! Every interleaving of two threads at a throttle, found by loom: `cargo xtask test`, or
//! `RUSTFLAGS="--cfg breakerbox_loom" cargo test -p breakerbox-core --lib --release interleavings`.

use loom::sync::Arc;
use loom::thread;

use super::super::retry::RetryBudget;
use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Does the same in two threads, and returns what each got.
fn both<S: Send + Sync + 'static, T: Send + 'static>(
    shared: &Arc<S>,
    work: impl Fn(&S) -> T + Copy + Send + 'static,
) -> [T; 2] {
    let other = Arc::clone(shared);
    let other = thread::spawn(move || work(&other));
    let mine = work(shared);
    [mine, other.join().unwrap()]
}

#[test]
fn the_last_token_is_taken_once() {
    loom::model(|| {
        let bucket = Arc::new(Bucket::new(1));
        bucket.start_probing(1.0, 0);
        bucket.free(1.0);
        let taken = both(&bucket, |bucket| bucket.take(0, 0).is_ok());
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    });
}

#[test]
fn the_floor_lets_one_call_pass_at_a_time() {
    loom::model(|| {
        let bucket = Arc::new(Bucket::new(1));
        bucket.start_probing(0.0, 0);
        let taken = both(&bucket, |bucket| bucket.take(0, 2_000_000).is_ok());
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    });
}

#[test]
fn no_token_is_lost_or_made_while_some_are_poured_in() {
    loom::model(|| {
        let bucket = Arc::new(Bucket::new(1));
        bucket.start_probing(1.0, 0);
        bucket.free(1.0);
        let pourer = Arc::clone(&bucket);
        let other = thread::spawn(move || pourer.free(2.0));
        let early = (0..2).filter(|_| bucket.take(0, 0).is_ok()).count();
        other.join().unwrap();
        let late = (0..5).filter(|_| bucket.take(0, 0).is_ok()).count();
        assert_eq!(early + late, 3);
    });
}

#[test]
fn the_last_retry_is_made_once() {
    loom::model(|| {
        let budget = Arc::new(RetryBudget::new(10));
        // The first window begins, with nothing accepted; then ten are, which pays for one.
        assert!(!budget.take(0, at(20_000)));
        let made = both(&budget, |budget| budget.take(10, at(20_001)));
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
    });
}

#[test]
fn two_that_look_at_once_see_every_call_once() {
    let mut model = loom::model::Builder::new();
    // Every look reads and writes a score of numbers, so not every order of all of them can be tried.
    model.preemption_bound = Some(3);
    model.check(|| {
        let adaptive = Arc::new(Adaptive::new(Levels::STANDARD));
        adaptive.try_acquire(3, at(1_000)).unwrap();
        // Both are due to look.
        let eras = both(&adaptive, |adaptive| adaptive.try_acquire(3, at(1_100)).unwrap());
        for era in eras {
            adaptive.settle(era, at(1_100), LoadSignal::Accept, at(1_101));
        }
        let counted = || [0, 1, 2].map(|n| adaptive.memory.counted[n].load(Relaxed));
        assert!((2..=3).contains(&counted()[0]), "one of them looked: {:?}", counted());
        // No thread is still looking, and the next look sees the remaining counts.
        adaptive.try_acquire(3, at(1_200)).unwrap();
        assert_eq!(counted(), [4, 0, 2], "asked, shed, accepted");
        assert_eq!(adaptive.looked_at.load(Relaxed), at(1_200).as_micros());
    });
}
