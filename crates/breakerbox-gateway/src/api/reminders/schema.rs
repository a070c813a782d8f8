//! Bodies as the document describes them. The types that are parsed are in `body`; a test with hostile clients compares
//! the two.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::view::CatchUpName;
use crate::api::events::PrioritySchema;

/// Two bodies from one list. Types are in brackets, so that derives see them as they are written.
macro_rules! schemas {
    (
        $(#[$create_meta:meta])*
        create $Create:ident { $($(#[$first_meta:meta])* $first:ident: [$($first_type:tt)*],)* }
        $(#[$change_meta:meta])*
        change $Change:ident { $($(#[$later_meta:meta])* $later:ident: [$($later_type:tt)*],)* }
        both { $($(#[$meta:meta])* $field:ident: [$($type:tt)*],)* }
    ) => {
        #[derive(Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$create_meta])*
        #[allow(dead_code)]
        pub(super) struct $Create {
            $($(#[$first_meta])* $first: $($first_type)*,)*
            $($(#[$meta])* $field: $($type)*,)*
        }

        #[derive(Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$change_meta])*
        #[allow(dead_code)]
        pub(super) struct $Change {
            $($(#[$later_meta])* $later: $($later_type)*,)*
            $($(#[$meta])* $field: $($type)*,)*
        }
    };
}

schemas! {
    /// A reminder to create: `at` alone runs once, `every` and `cron` repeat.
    #[schema(example = json!({"url": "https://hooks.example.com/remind", "payload": {"invoice": 7}, "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin"}))]
    create ReminderSchema {
        /// Whose; needed only with a key for all tenants, and then `default` if nothing is said.
        #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
        tenant: [Option<String>],
        /// Who is called: http or https.
        #[schema(format = "uri", max_length = 8192)]
        url: [String],
    }
    /// What to change of a reminder. What is left out stays; null: the default again.
    #[schema(example = json!({"cron": "0 10 * * MON-FRI"}))]
    change ReminderChangeSchema {
        /// Who is called: http or https. A run that waits goes there.
        #[schema(format = "uri", max_length = 8192)]
        url: [Option<String>],
    }
    both {
        /// Any JSON; sent byte for byte. Either this or `payload_base64`.
        payload: [Option<Value>],
        /// Raw bytes, as base64. Either this or `payload`.
        #[schema(content_encoding = "base64")]
        payload_base64: [Option<String>],
        /// What the raw bytes are; `application/octet-stream` if nothing is said. Only with `payload_base64`.
        #[schema(max_length = 255)]
        content_type: [Option<String>],
        /// When it is due; with `every` the first time, with `cron` not before. What repeats begins now if nothing is said.
        #[schema(format = "date-time")]
        at: [Option<String>],
        /// It repeats after so long, from `1s` to `1825d`.
        #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "24h")]
        every: [Option<String>],
        /// It repeats at these local times: minute, hour, day, month, weekday.
        #[schema(max_length = 256, example = "0 9 * * MON-FRI")]
        cron: [Option<String>],
        /// Whose clock `cron` goes by: a name of the IANA database. UTC if nothing is said.
        #[schema(max_length = 64, example = "Europe/Berlin")]
        time_zone: [Option<String>],
        /// Nothing is due after this. Only with `every` or `cron`.
        #[schema(format = "date-time")]
        ends_at: [Option<String>],
        /// So many runs at the most. Only with `every` or `cron`.
        #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
        max_runs: [Option<u32>],
        /// Of what was missed, all fires or only the latest; as the tenant says if nothing is said.
        #[schema(inline)]
        catch_up: [Option<CatchUpName>],
        /// How important; medium if nothing is said.
        #[schema(inline)]
        priority: [Option<PrioritySchema>],
        /// Your own name for it. No two of a tenant have the same, unless one is cancelled.
        #[schema(min_length = 1, max_length = 200, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
        reference: [Option<String>],
        /// A run that waits is given up after so long, such as `1h`; never if nothing is said.
        #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1h")]
        expires_after: [Option<String>],
    }
}

/// Reminders to create together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reminders": [{"url": "https://hooks.example.com/remind", "payload": {"invoice": 7}, "at": "2030-01-31T09:00:00Z"}]}))]
#[allow(dead_code)]
pub(super) struct BatchSchema {
    /// Whose; needed only with a key for all tenants, and then `default` if nothing is said.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// The reminders, as for a single one, without `tenant`.
    #[schema(min_items = 1, max_items = 1000)]
    reminders: Vec<ReminderSchema>,
}
