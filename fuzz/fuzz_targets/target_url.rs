//! Checks a URL and the addresses that it may name: any input is accepted or refused without a panic; the
//! checked address is the one that would be called; and no notation of an address bypasses the policy.

#![no_main]

use std::net::IpAddr;

use breakerbox_egress::AddressPolicy;
use breakerbox_model::delivery::Target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(target) = text.parse::<Target>() else { return };
    let again: Target = target.uri().to_string().parse().expect("what is sent can be read again");
    assert_eq!(again, target);
    let host = target.uri().host().expect("a target has a host");
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    assert_eq!(address, target.literal(), "the address that is checked is the one in the request");
    assert!(target.uri().port_u16() != Some(0));
    let Some(address) = address else { return };
    let is_denied = AddressPolicy::default().check(address).is_err();
    let must_be_denied = match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_documentation()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
        }
    };
    assert!(is_denied || !must_be_denied, "{address}");
});
