//! Measures the heap bytes per circuit with dhat: new, after traffic, and after an idle window. The size of the
//! keys is subtracted.

use std::time::Duration;

use breakerbox::{Breakerbox, ManualClock};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const CIRCUITS: usize = 100_000;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let clock = ManualClock::new();
    let breakers = Breakerbox::builder().clock(clock.clone()).build();
    let keys: Vec<String> = (0..CIRCUITS).map(|n| format!("tenant https://hooks.example.com/{n}")).collect();
    let text: usize = keys.iter().map(String::len).sum();
    let before = dhat::HeapStats::get().curr_bytes;
    let each = || (dhat::HeapStats::get().curr_bytes - before - text) / CIRCUITS;

    println!("\n| heap bytes for each of {CIRCUITS} circuits, less the key's text | |\n| --- | --- |");
    for key in &keys {
        breakers.circuit(key).expect("a good key");
    }
    println!("| never called | {} |", each());
    for key in &keys {
        let circuit = breakers.circuit(key).expect("a good key");
        for _ in 0..3 {
            circuit.try_acquire().expect("closed").success();
        }
        circuit.try_acquire().expect("closed").failure();
    }
    println!("| has seen traffic | {} |", each());
    let (blocks, circuit) =
        (dhat::HeapStats::get().total_blocks, breakers.circuit(&keys[0]).expect("a good key"));
    for _ in 0..10_000 {
        circuit.try_acquire().expect("closed").success();
    }
    println!("| allocations of 10,000 calls | {} |", dhat::HeapStats::get().total_blocks - blocks);
    clock.advance(Duration::from_secs(61));
    breakers.tidy();
    println!("| idle for a window, after `tidy` | {} |", each());
}
