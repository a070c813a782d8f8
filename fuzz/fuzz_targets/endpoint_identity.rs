//! Converts a URL to a circuit key: the result is a key of bounded length that starts with its tenant, or an
//! error.

#![no_main]

use breakerbox_core::{CircuitBy, Key, MAX_KEY_LENGTH};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (tenant, url) = input;
    for by in [CircuitBy::Endpoint, CircuitBy::Host, CircuitBy::Tenant] {
        if let Ok(key) = Key::of(tenant, url, by) {
            assert!(key.text().len() <= MAX_KEY_LENGTH);
            assert_eq!(key.text().split(' ').next(), Some(tenant));
            assert!(!key.text().contains(['?', '#']) || tenant.contains(['?', '#']));
        }
    }
});
