//! The notification about a change: the key and the record, as JSON.
//!
//! Postgres sends at most 7,999 bytes, in the database's encoding, so all non-ASCII characters are escaped. A
//! record that does not fit is left out, and the listener reads it from the store. If the key does not fit
//! either, it is left out as well; then listeners are only notified that they missed a change.

use std::fmt::Write;
use std::sync::Arc;

use breakerbox::Record;
use serde::{Deserialize, Serialize};

/// The maximum length of a message, in bytes, which is the limit of `NOTIFY`.
const MAX_LENGTH: usize = 7_999;

/// A message about a change, as it is sent.
#[derive(Serialize)]
struct ChangeMessage<'a> {
    key: Option<&'a str>,
    record: Option<&'a Record>,
}

/// A message as it is received, which is either a change or a request for reports.
#[derive(PartialEq, Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) key: Option<String>,
    pub(crate) record: Option<Record>,
    /// The keys for which reports are requested; empty for a change.
    #[serde(default)]
    pub(crate) reports: Vec<String>,
}

/// Returns as few messages as possible that request reports on these keys. A key that does not fit into a
/// message is left out. For such a key, the process with the pending trip receives only the other processes'
/// regular reports.
pub(crate) fn call_for_reports(keys: &[Arc<str>]) -> Vec<String> {
    const FRAME: &str = r#"{"reports":[]}"#;
    let mut texts: Vec<String> = Vec::new();
    let mut list = String::new();
    for key in keys {
        let Ok(key) = serde_json::to_string(&**key).map(|key| in_ascii(&key)) else { continue };
        if FRAME.len() + key.len() > MAX_LENGTH {
            continue;
        }
        if FRAME.len() + list.len() + 1 + key.len() > MAX_LENGTH {
            texts.push(format!("{{\"reports\":[{list}]}}"));
            list.clear();
        }
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&key);
    }
    if !list.is_empty() {
        texts.push(format!("{{\"reports\":[{list}]}}"));
    }
    texts
}

/// Returns the message to send about a change.
pub(crate) fn write(key: &str, record: &Record) -> String {
    let forms = [
        ChangeMessage { key: Some(key), record: Some(record) },
        ChangeMessage { key: Some(key), record: None },
        ChangeMessage { key: None, record: None },
    ];
    let mut texts =
        forms.iter().filter_map(|sent| serde_json::to_string(sent).ok()).map(|text| in_ascii(&text));
    texts.find(|text| text.len() <= MAX_LENGTH).unwrap_or_else(|| "{}".to_owned())
}

/// Parses a message; `None` if the message is invalid.
pub(crate) fn read(text: &str) -> Option<Message> {
    serde_json::from_str(text).ok()
}

/// Escapes all non-ASCII characters in JSON. Such characters occur only inside strings, where escapes are
/// allowed.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string can't fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;
    use breakerbox::{Attribution, Epoch, Mode, State, Timestamp, Version};

    fn record(reason: &str) -> Record {
        let mut record = Record::fresh(Epoch(7), Version(u128::MAX), Timestamp::from_micros(7));
        record.state = State::Open;
        record.mode = Mode::ForcedOpen(Attribution::new("ops", reason).unwrap());
        record
    }

    #[test]
    fn what_is_sent_is_heard_and_fits() {
        let long = |c: char| c.to_string().repeat(1_024 / c.len_utf8());
        for (key, reason, has_key, has_record) in [
            ("acme \u{1f50c} \0 Zo\u{eb}", "maintenance".to_owned(), true, true),
            (&*long('x'), long('y'), true, true),
            (&long('\u{1f50c}'), long('\u{e9}'), true, true),
            (&long('\0'), long('\0'), true, false),
            (&long('\0').repeat(2), String::new(), false, false),
        ] {
            let (text, record) = (write(key, &record(&reason)), record(&reason));
            assert!(text.is_ascii() && text.len() <= MAX_LENGTH && !text.contains('\0'));
            let message = read(&text).unwrap();
            assert_eq!(message.key.as_deref(), has_key.then_some(key));
            assert_eq!(message.record, has_record.then_some(record));
        }
        assert_eq!(read("nonsense"), None);
    }

    #[test]
    fn calls_for_reports_fit_whatever_the_keys() {
        let mut keys: Vec<Arc<str>> = (0..2_000).map(|n| format!("acme \u{e9} {n}").into()).collect();
        keys.push("\0".repeat(1_400).into());
        let texts = call_for_reports(&keys);
        assert!(texts.len() > 1 && texts.iter().all(|text| text.is_ascii() && text.len() <= MAX_LENGTH));
        let heard: Vec<_> = texts.iter().flat_map(|text| read(text).unwrap().reports).collect();
        assert!(heard.iter().map(|key| &**key).eq(keys[..2_000].iter().map(|key| &**key)));
        assert!(call_for_reports(&[]).is_empty());
    }
}
