//! Parses a policy file in TOML or JSON: the result is a policy within its bounds, or an error that names a
//! field.

#![no_main]

use breakerbox_core::{MAX_DURATION, PolicyBuilder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let builders = [toml::from_str::<PolicyBuilder>(text).ok(), serde_json::from_str(text).ok()];
    for builder in builders.iter().flatten() {
        for built in [builder.build(), builder.build_for_sampling()] {
            match built {
                Ok(policy) => {
                    assert!(policy.cool_off() <= policy.cool_off_max() && policy.cool_off_max() <= MAX_DURATION);
                    assert!(!policy.window().is_zero() && policy.probes() > 0 && policy.min_calls() > 0);
                }
                Err(error) => assert!(!error.field().is_empty()),
            }
        }
    }
});
