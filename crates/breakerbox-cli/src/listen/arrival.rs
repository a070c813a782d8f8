//! Received requests, and how they are printed. Their content is untrusted: on a terminal, it is printed without
//! characters that could move the cursor.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_model::delivery::{SignatureError, WEBHOOK_EVENT_TYPE, WEBHOOK_ID};
use bytes::Bytes;
use http::request::Parts;
use serde_json::{Map, Value, json};

use crate::failure::printable;

/// The maximum length of a body that is printed without `--full`, in characters.
const SHOWN: usize = 2_000;
/// The maximum length of JSON that is printed as it was received, in bytes.
const SHORT: usize = 80;
/// The maximum number of `webhook-id`s to remember for detecting repeated requests.
const REMEMBERED: usize = 100_000;

/// One received request.
pub(super) struct Arrival {
    parts: Parts,
    body: Bytes,
    /// The result of verifying the signature. `None` if no secret was given.
    verdict: Option<Result<(), SignatureError>>,
    answered: u16,
    at: Duration,
    /// Whether an earlier request had the same `webhook-id`, so that this one is a retry or a resend.
    again: bool,
}

/// Counts the requests received so far.
#[derive(Default)]
pub(super) struct Count {
    total: u64,
    unbelieved: u64,
    again: u64,
    seen: HashSet<String>,
}

impl Arrival {
    pub(super) fn new(
        parts: Parts,
        body: Bytes,
        verdict: Option<Result<(), SignatureError>>,
        answered: u16,
        at: Duration,
    ) -> Self {
        Self { parts, body, verdict, answered, at, again: false }
    }

    /// Returns the request's `webhook-id`, or `-` if it has none.
    pub(super) fn name(&self) -> String {
        let id = self.parts.headers.get(&WEBHOOK_ID).and_then(|id| id.to_str().ok());
        printable(id.unwrap_or("-").chars())
    }

    /// Returns the event's type, if the request has the header `webhook-event-type`.
    fn event_type(&self) -> Option<String> {
        let kind = self.parts.headers.get(&WEBHOOK_EVENT_TYPE)?.to_str().ok()?;
        Some(printable(kind.chars().take(128)))
    }

    /// Returns the result of the verification as one word.
    fn signature(&self) -> &'static str {
        match self.verdict {
            None => "unchecked",
            Some(Ok(())) => "valid",
            Some(Err(SignatureError::TooOld(_))) => "too_old",
            Some(Err(SignatureError::TooNew(_))) => "too_new",
            Some(Err(SignatureError::Header(_))) => "missing",
            Some(Err(_)) => "invalid",
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut headers = Map::new();
        for (name, value) in &self.parts.headers {
            headers.insert(name.to_string(), String::from_utf8_lossy(value.as_bytes()).into());
        }
        let mut line = json!({
            "at_ms": u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX),
            "method": self.parts.method.as_str(),
            "path": self.parts.uri.path_and_query().map_or("/", |path| path.as_str()),
            "id": self.parts.headers.get(&WEBHOOK_ID).and_then(|id| id.to_str().ok()),
            "type": self.event_type(),
            "signature": self.signature(),
            "repeated": self.again,
            "response_status": self.answered,
            "headers": headers,
        });
        if let Some(Err(error)) = self.verdict {
            line["error"] = error.to_string().into();
        }
        // The body as received, if it can be a JSON string.
        match std::str::from_utf8(&self.body) {
            Ok(text) => line["body"] = text.into(),
            Err(_) => line["body_base64"] = STANDARD.encode(&self.body).into(),
        }
        line
    }

    pub(super) fn to_text(&self, full: bool, colour: bool) -> String {
        let painted = |word: &str, code: &str| {
            if colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
        };
        let signature = match self.signature() {
            "valid" => painted("signature valid", "32"),
            "unchecked" => "signature not checked".into(),
            "too_old" => painted("signature TOO OLD", "31"),
            "too_new" => painted("signature TOO NEW", "31"),
            "missing" => painted("signature MISSING", "31"),
            _ => painted("signature INVALID", "31"),
        };
        let answered = painted(&self.answered.to_string(), if self.answered < 300 { "32" } else { "31" });
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let again = if self.again { ", repeated" } else { "" };
        let kind = self.event_type().map(|kind| format!("{kind}  ")).unwrap_or_default();
        let mut text = format!(
            "{}  response {answered}  {kind}{} {}  {}{again}  {} bytes  {signature}\n",
            clock(self.at),
            self.parts.method,
            printable(path.chars().take(200)),
            self.name(),
            self.body.len(),
        );
        if let Some(Err(error)) = self.verdict {
            let _ = writeln!(text, "    {error}");
        }
        for line in shown(&self.body, full) {
            let _ = writeln!(text, "    {line}");
        }
        text
    }
}

/// Formats a body for display: JSON, indented unless it is short, text, or `(binary)`.
fn shown(body: &[u8], full: bool) -> Vec<String> {
    if body.is_empty() {
        return vec![];
    }
    let Ok(text) = std::str::from_utf8(body) else { return vec!["(binary)".into()] };
    let limit = if full { usize::MAX } else { SHOWN };
    // Indentation would make a long body even longer, and a short one harder to follow.
    let pretty = (text.len() > SHORT && (full || text.len() <= SHOWN))
        .then(|| {
            serde_json::from_str::<Value>(text).and_then(|value| serde_json::to_string_pretty(&value)).ok()
        })
        .flatten();
    let text = pretty.as_deref().unwrap_or(text);
    let mut shortened: String = text.chars().take(limit).collect();
    if shortened.len() < text.len() {
        shortened.push_str("… (--full shows the rest)");
    }
    shortened.lines().map(|line| printable(line.chars())).collect()
}

/// Formats a time, given since the Unix epoch, as the time of day in UTC.
fn clock(at: Duration) -> String {
    let millis = at.as_millis() % 86_400_000;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}Z", millis / 1_000 % 60, millis % 1_000)
}

impl Count {
    /// Counts a request. Returns the new count.
    pub(super) fn add(&mut self, arrival: &mut Arrival) -> u64 {
        self.total += 1;
        self.unbelieved += u64::from(matches!(arrival.verdict, Some(Err(_))));
        let id = arrival.name();
        arrival.again = self.seen.contains(&id);
        self.again += u64::from(arrival.again);
        if id != "-" && self.seen.len() < REMEMBERED {
            self.seen.insert(id);
        }
        self.total
    }

    pub(super) fn summary(&self) -> String {
        let Self { total, unbelieved, again, .. } = self;
        format!("{total} requests: {again} repeated, {unbelieved} with an unverified signature")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_so_that_people_can_read_them() {
        for (body, full, expected) in [
            (&b""[..], false, vec![]),
            (b"{\"a\":1}", false, vec!["{\"a\":1}"]),
            (b"a\x1b[2Jb", false, vec!["a\\u{1b}[2Jb"]),
            (b"\xff", false, vec!["(binary)"]),
        ] {
            assert_eq!(shown(body, full), expected);
        }
        let longer = format!("{{\"a\":\"{}\"}}", "x".repeat(80));
        assert_eq!(shown(longer.as_bytes(), false).len(), 3, "on lines of its own");
        let long = "x".repeat(3_000);
        assert!(shown(long.as_bytes(), false)[0].ends_with("x… (--full shows the rest)"));
        assert_eq!(shown(long.as_bytes(), true), [long]);
    }

    #[test]
    fn the_time_of_day_is_read_off() {
        assert_eq!(clock(Duration::from_millis(86_400_000 * 20_000 + 3_723_004)), "01:02:03.004Z");
    }
}
