//! Parses custom headers from JSON: any input is accepted, or refused with the header's name, without a panic.
//! Accepted headers can be sent, don't replace the gateway's own, and survive a round trip.

#![no_main]

use breakerbox_model::delivery::{CustomHeaders, MAX_HEADERS, MAX_TOTAL_LENGTH};
use http::HeaderMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let headers: CustomHeaders = match serde_json::from_str(text) {
        Ok(headers) => headers,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "an error is one line");
            return;
        }
    };
    let mut map = HeaderMap::new();
    headers.add_to(&mut map);
    assert_eq!(map.len(), headers.iter().count(), "each is there once");
    assert!(map.len() <= MAX_HEADERS);
    let length: usize = map.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    assert!(length <= MAX_TOTAL_LENGTH);
    for (name, value) in &map {
        let name = name.as_str();
        assert!(
            !["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"].contains(&name)
        );
        assert!(!name.starts_with("webhook-"));
        assert!(value.as_bytes().iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    }
    let written = serde_json::to_string(&headers).expect("headers can be written");
    assert_eq!(serde_json::from_str::<CustomHeaders>(&written).expect("and read back"), headers);
});
