//! Hostile input yields a typed error or a valid value, and never a panic.

use breakerbox_core::{
    CircuitBy, Key, MAX_DURATION, MAX_KEY_LENGTH, PolicyBuilder, format_duration, parse_duration,
};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

/// Generates text that resembles a policy file, with errors here and there.
fn policy_text() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        4 => proptest::sample::select(breakerbox_core::POLICY_KEYS).prop_map(String::from),
        1 => "[a-z_]{1,12}",
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (0..200_u32).prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        "\"[0-9]{1,22}(ms|s|m|h|d|x)?\"",
        Just("\"off\"".to_string()),
        "\"\\PC{0,20}\"",
        "\\PC{0,10}",
    ];
    proptest::collection::vec((key, value), 0..8).prop_map(|lines| {
        lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect::<String>()
    })
}

fn url_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        "(?i)(https?|ftp)://[a-z0-9.:@%\\[\\]-]{0,20}(/[a-zA-Z0-9%./ -]{0,20}){0,3}([?#]\\PC{0,10})?",
    ]
}

proptest! {
    #[test]
    fn a_policy_file_is_a_policy_or_an_error(text in policy_text()) {
        if let Ok(builder) = toml::from_str::<PolicyBuilder>(&text) {
            for built in [builder.build(), builder.build_for_sampling()] {
                match built {
                    Ok(policy) => {
                        prop_assert!(policy.cool_off() <= policy.cool_off_max());
                        prop_assert!(policy.cool_off_max() <= MAX_DURATION);
                        prop_assert!(!policy.window().is_zero());
                    }
                    Err(error) => prop_assert!(error.to_string().starts_with(error.field())),
                }
            }
        }
    }

    #[test]
    fn a_duration_reads_back_or_is_an_error(text in "\\PC{0,30}|([0-9]{1,21}(ms|s|m|h|d)){1,5}") {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!(duration <= MAX_DURATION);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }

    #[test]
    fn an_endpoint_is_a_bounded_key_that_is_its_own_identity(tenant in "[a-z]{1,8}|\\PC{0,8}", url in url_text()) {
        if let Ok(key) = Key::of(&tenant, &url, CircuitBy::Endpoint) {
            prop_assert!(key.text().len() <= MAX_KEY_LENGTH);
            let (owner, normalised) = key.text().split_once(' ').expect("tenant, space, URL");
            prop_assert_eq!(owner, tenant.as_str());
            prop_assert!(!normalised.contains(['?', '#', '@', ' ']), "{}", normalised);
            // Normalising again can only drop one more trailing slash.
            let again = Key::of(&tenant, normalised, CircuitBy::Endpoint).unwrap();
            let shorter = key.text().strip_suffix('/').unwrap_or(key.text());
            prop_assert!([key.text(), shorter].contains(&again.text()));
        }
    }

    #[test]
    fn any_text_is_a_key_or_an_error(text in "\\PC{0,20}|[a-z]{1000,1100}") {
        prop_assert_eq!(Key::new(&text).is_ok(), !text.is_empty() && text.len() <= MAX_KEY_LENGTH);
    }
}
