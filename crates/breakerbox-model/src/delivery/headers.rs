//! Custom headers for an endpoint's requests.
//!
//! Headers that determine a request's destination, length or sender can't be set, because a header that one server
//! reads and another ignores allows request smuggling. Values may be credentials, so they are never shown.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// The maximum number of custom headers per endpoint.
pub const MAX_HEADERS: usize = 32;
/// The maximum length of a header's name, in bytes.
pub const MAX_NAME_LENGTH: usize = 128;
/// The maximum length of a header's value, in bytes.
pub const MAX_VALUE_LENGTH: usize = 4_096;
/// The maximum total length of all custom headers, in bytes. Receivers commonly accept 8 KiB, and the gateway adds
/// its own headers.
pub const MAX_TOTAL_LENGTH: usize = 6_144;

/// Headers that the gateway or HTTP sets, or that apply to one hop only.
const RESERVED: [&str; 16] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];
/// The prefix of the headers defined by Standard Webhooks.
const RESERVED_PREFIX: &str = "webhook-";

/// Headers sent with each request to an endpoint. They serialize as a map from name to value.
///
/// ```
/// use breakerbox_model::delivery::CustomHeaders;
///
/// let headers = CustomHeaders::new([("Authorization", "Bearer 7"), ("x-shop", "acme")])?;
/// assert_eq!(headers.iter().count(), 2);
///
/// let refused = CustomHeaders::new([("Host", "elsewhere.example")]).unwrap_err();
/// assert_eq!(refused.to_string(), "headers.host: can't be set; the gateway or HTTP itself uses it");
/// # Ok::<(), breakerbox_model::delivery::HeaderError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct CustomHeaders(Vec<(HeaderName, HeaderValue)>);

/// Why custom headers are rejected. The error message never contains a header's value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There are more than [`MAX_HEADERS`] headers.
    #[error("headers: must be at most {MAX_HEADERS}, but are {found}")]
    TooMany {
        /// The number of headers given.
        found: usize,
    },
    /// All headers together exceed [`MAX_TOTAL_LENGTH`].
    #[error("headers: must be at most {MAX_TOTAL_LENGTH} bytes in all, but are {found}")]
    TooLong {
        /// The length of all headers together, in bytes.
        found: usize,
    },
    /// The header is reserved, because the gateway or HTTP itself sets it.
    #[error("headers.{name}: can't be set; the gateway or HTTP itself uses it")]
    Reserved {
        /// The name of the reserved header.
        name: String,
    },
    /// The name is not a valid header name.
    #[error(
        "headers.{name}: is not a valid header name; use 1 to {MAX_NAME_LENGTH} letters, digits and characters such as `-`"
    )]
    Name {
        /// The name as given, truncated for the error message.
        name: String,
    },
    /// The header occurs twice. Names are case-insensitive.
    #[error("headers.{name}: is given twice")]
    Twice {
        /// The name of the repeated header, in lower case.
        name: String,
    },
    /// The value contains characters that can't be sent in a header.
    #[error("headers.{name}: must be visible ASCII, spaces and tabs, without space at either end")]
    Value {
        /// The name of the header with the invalid value.
        name: String,
    },
    /// A value exceeds [`MAX_VALUE_LENGTH`].
    #[error("headers.{name}: must be at most {MAX_VALUE_LENGTH} bytes, but is {found}")]
    ValueTooLong {
        /// The name of the header whose value is too long.
        name: String,
        /// The length of the value, in bytes.
        found: usize,
    },
}

impl CustomHeaders {
    /// Creates custom headers, sorted by name.
    ///
    /// # Errors
    /// Returns an error that names the rejected header and the reason.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, HeaderError> {
        let mut read: Vec<(HeaderName, HeaderValue)> = Vec::new();
        let mut found = 0;
        for (name, value) in headers {
            found += 1;
            if found <= MAX_HEADERS {
                read.push((name_of(name)?, value_of(name, value)?));
            }
        }
        if found > MAX_HEADERS {
            return Err(HeaderError::TooMany { found });
        }
        read.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        if let Some(pair) = read.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(HeaderError::Twice { name: pair[0].0.to_string() });
        }
        let found = read.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if found > MAX_TOTAL_LENGTH { Err(HeaderError::TooLong { found }) } else { Ok(Self(read)) }
    }

    /// Iterates over the headers, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    /// Returns whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Inserts the custom headers into a request's headers, replacing any with the same names.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.insert(name, value.clone());
        }
    }
}

fn name_of(name: &str) -> Result<HeaderName, HeaderError> {
    let wrong = || HeaderError::Name { name: shortened(name) };
    if name.len() > MAX_NAME_LENGTH {
        return Err(wrong());
    }
    let read: HeaderName = name.parse().map_err(|_| wrong())?;
    if RESERVED.contains(&read.as_str()) || read.as_str().starts_with(RESERVED_PREFIX) {
        return Err(HeaderError::Reserved { name: read.to_string() });
    }
    Ok(read)
}

fn value_of(name: &str, value: &str) -> Result<HeaderValue, HeaderError> {
    let name = || shortened(name);
    if value.len() > MAX_VALUE_LENGTH {
        return Err(HeaderError::ValueTooLong { name: name(), found: value.len() });
    }
    let fits = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    if value.trim() != value || !value.bytes().all(fits) {
        return Err(HeaderError::Value { name: name() });
    }
    let mut read = HeaderValue::from_str(value).map_err(|_| HeaderError::Value { name: name() })?;
    // `Debug` hides sensitive values, and HTTP/2 keeps them out of its header compression table.
    read.set_sensitive(true);
    Ok(read)
}

/// Returns untrusted text on one line, short enough for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl TryFrom<BTreeMap<String, String>> for CustomHeaders {
    type Error = HeaderError;

    fn try_from(headers: BTreeMap<String, String>) -> Result<Self, HeaderError> {
        Self::new(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

/// Exposes the header values, which may be credentials. Use it only for the database and the endpoint's owner, never
/// for logs.
impl From<CustomHeaders> for BTreeMap<String, String> {
    fn from(headers: CustomHeaders) -> Self {
        let text = |value: HeaderValue| value.to_str().unwrap_or_default().to_owned();
        headers.0.into_iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_others_is_refused_whatever_its_case() {
        let names = RESERVED.into_iter().chain(["webhook-id", "webhook-signature", "webhook-anything"]);
        for name in names {
            let capital: String = name
                .split('-')
                .map(|part| part[..1].to_uppercase() + &part[1..])
                .collect::<Vec<_>>()
                .join("-");
            for written in [name.to_owned(), name.to_uppercase(), capital] {
                let refused = HeaderError::Reserved { name: name.to_owned() };
                assert_eq!(CustomHeaders::new([(written.as_str(), "x")]), Err(refused), "{written}");
            }
        }
        for name in ["Authorization", "User-Agent", "X-Webhook-Id", "webhook", "Cookie", "x_y.z~"] {
            assert!(CustomHeaders::new([(name, "x")]).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long_name = "n".repeat(129);
        let long_value = "v".repeat(4_097);
        let names: Vec<_> = (0..33).map(|n| format!("x-{n}")).collect();
        let table: Vec<(Vec<(&str, &str)>, &str)> = vec![
            (vec![("", "x")], "headers.: is not a valid header name"),
            (vec![("a b", "x")], "headers.a b: is not a valid header name"),
            (vec![(":path", "x")], "headers.:path: is not a valid header name"),
            (vec![("host ", "x")], "headers.host : is not a valid header name"),
            (vec![("a\r\nhost", "x")], "headers.a??host: is not a valid header name"),
            (vec![("é", "x")], "headers.é: is not a valid header name"),
            (
                vec![(&long_name, "x")],
                "headers.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn: is not a valid header name",
            ),
            (vec![("x-a", "1"), ("X-A", "2")], "headers.x-a: is given twice"),
            (vec![("x-a", "1\r\nhost: b")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", "1\n")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", " 1")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", "\0")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", "\x7f")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", "ü")], "headers.x-a: must be visible ASCII"),
            (vec![("x-a", &long_value)], "headers.x-a: must be at most 4096 bytes, but is 4097"),
            (
                vec![("x-a", &long_value[..4_000]), ("x-b", &long_value[..4_000])],
                "headers: must be at most 6144 bytes in all, but are 8006",
            ),
            (names.iter().map(|n| (n.as_str(), "")).collect(), "headers: must be at most 32, but are 33"),
        ];
        for (headers, start) in table {
            let error = CustomHeaders::new(headers).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
            assert!(error.len() < 200, "{error}");
        }
        let empty = CustomHeaders::new([("x-a", "")]).unwrap();
        assert!(!empty.is_empty());
    }

    #[test]
    fn values_are_written_for_their_owner_and_hidden_from_logs() {
        let text = r#"{"authorization":"Bearer secret-7","x-shop":"a\tb"}"#;
        let headers: CustomHeaders = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&headers).unwrap(), text);
        assert!(!format!("{headers:?}").contains("secret-7"));
        let mut map = HeaderMap::new();
        map.insert("x-shop", HeaderValue::from_static("default"));
        headers.add_to(&mut map);
        assert_eq!(map["x-shop"], "a\tb");
        assert_eq!(map.len(), 2);
    }
}
