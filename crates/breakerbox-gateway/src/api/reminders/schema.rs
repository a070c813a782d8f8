//! Request bodies as documented in OpenAPI. The types that are parsed are in `body`; a test that sends generated
//! requests compares the two.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::view::CatchUpName;
use crate::api::events::PrioritySchema;

/// Declares two bodies from one list. Types are in brackets, so that derive macros see them unexpanded.
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
    /// A reminder to create. With `at` alone it runs once; with `every` or `cron` it repeats.
    #[schema(as = NewReminder, example = json!({"url": "https://hooks.example.com/remind", "payload": {"invoice": 7}, "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin"}))]
    create ReminderSchema {
        /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
        #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
        tenant: [Option<String>],
        /// The URL to call, http or https.
        #[schema(format = "uri", max_length = 8192)]
        url: [String],
    }
    /// A change to a reminder. Omitted fields stay unchanged; null restores the default.
    #[schema(as = ReminderChange, example = json!({"cron": "0 10 * * MON-FRI"}))]
    change ReminderChangeSchema {
        /// The URL to call, http or https. A waiting run goes to the new URL.
        #[schema(format = "uri", max_length = 8192)]
        url: [Option<String>],
    }
    both {
        /// The payload: any JSON, sent byte for byte. Use either this or `payload_base64`.
        payload: [Option<Value>],
        /// The payload as base64, for raw bytes. Use either this or `payload`.
        #[schema(content_encoding = "base64")]
        payload_base64: [Option<String>],
        /// The content type of the raw bytes. Default: `application/octet-stream`. Only with `payload_base64`.
        #[schema(max_length = 255)]
        content_type: [Option<String>],
        /// The time of the run; with `every`, the time of the first run; with `cron`, the earliest time of a run.
        /// Default with `every` or `cron`: now.
        #[schema(format = "date-time")]
        at: [Option<String>],
        /// The interval between runs, from `1s` to `1825d`. Default: the reminder runs once.
        #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "24h")]
        every: [Option<String>],
        /// A cron expression, in the time zone `time_zone`: minute, hour, day, month, weekday. Default: the
        /// reminder runs once.
        #[schema(max_length = 256, example = "0 9 * * MON-FRI")]
        cron: [Option<String>],
        /// The time zone of `cron`, a name from the IANA database. Default: `UTC`.
        #[schema(max_length = 64, example = "Europe/Berlin")]
        time_zone: [Option<String>],
        /// The time after which the reminder no longer runs. Only with `every` or `cron`. Default: no end.
        #[schema(format = "date-time")]
        ends_at: [Option<String>],
        /// The maximum number of runs. Only with `every` or `cron`. Default: no limit.
        #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
        max_runs: [Option<u32>],
        /// Which missed occurrences to fire: `all`, or only the `latest`. Default: the tenant's setting.
        catch_up: [Option<CatchUpName>],
        /// The priority of the reminder's runs. Default: `medium`.
        priority: [Option<PrioritySchema>],
        /// Your own name for the reminder, unique among the tenant's reminders that are not cancelled, 1 to 200
        /// characters. Default: none.
        #[schema(min_length = 1, max_length = 200, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
        reference: [Option<String>],
        /// The maximum time that a run waits before it expires, such as `1h`. Default: no limit.
        #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1h")]
        expires_after: [Option<String>],
    }
}

/// A batch of reminders.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReminders, example = json!({"reminders": [{"url": "https://hooks.example.com/remind", "payload": {"invoice": 7}, "at": "2030-01-31T09:00:00Z"}]}))]
#[allow(dead_code)]
pub(super) struct BatchSchema {
    /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// The reminders. Set `tenant` for the whole batch, not in a reminder.
    #[schema(min_items = 1, max_items = 1000)]
    reminders: Vec<ReminderSchema>,
}

/// A payload, byte for byte.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary, example = "{\"invoice\":7}")]
#[allow(dead_code)]
pub(super) struct Payload(Vec<u8>);
