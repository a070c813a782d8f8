//! A request that is built once and sent repeatedly, with placeholders for a timestamp and a number.

use crate::stamp;

/// The placeholder for the timestamp in a body. It has the same length as a timestamp.
pub const STAMP: &str = "@@@@@@@@@@@@@@@@@@@@";

/// The placeholder for the request's number in a body.
pub const NUMBER: &str = "##########";

/// A request with placeholders for its timestamp and its number.
///
/// ```
/// use breakerbox_testkit::load::{NUMBER, STAMP, Template};
///
/// let body = format!(r#"{{"at":"{STAMP}","n":"{NUMBER}"}}"#);
/// let template = Template::post("127.0.0.1:80", "/in", &[("content-type", "application/json")], &body);
/// let mut request = Vec::new();
/// template.fill(7, 99, &mut request);
/// assert!(String::from_utf8_lossy(&request).ends_with(r#"{"at":"00000000000000000099","n":"0000000007"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    request: Vec<u8>,
    stamps: Vec<usize>,
    numbers: Vec<usize>,
    /// The number of requests after which the request numbers restart at 0.
    cycle: u64,
}

impl Template {
    /// Returns a `GET` request.
    #[must_use]
    pub fn get(host: &str, path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes();
        Self { request, stamps: Vec::new(), numbers: Vec::new(), cycle: u64::MAX }
    }

    /// Returns a `POST` request with this body, in which every [`STAMP`] and [`NUMBER`] is a placeholder.
    #[must_use]
    pub fn post(host: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        let places = |of: &str| request.match_indices(of).map(|(place, _)| place).collect();
        let (stamps, numbers) = (places(STAMP), places(NUMBER));
        Self { request: request.into_bytes(), stamps, numbers, cycle: u64::MAX }
    }

    /// Makes the request numbers restart at 0 after this many requests.
    #[must_use]
    pub fn cycle(self, cycle: u64) -> Self {
        Self { cycle: cycle.max(1), ..self }
    }

    /// Writes a request with its placeholders filled in to a buffer, replacing the buffer's contents.
    pub fn fill(&self, number: u64, stamp: u64, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.request);
        for place in &self.stamps {
            stamp::write(stamp, &mut into[*place..place + stamp::WIDTH]);
        }
        for place in &self.numbers {
            stamp::write(number % self.cycle, &mut into[*place..place + NUMBER.len()]);
        }
    }
}

const _: () = assert!(STAMP.len() == stamp::WIDTH);
