//! A request that is made once and sent again and again, with a time and a number that change in their places.

use crate::stamp;

/// Stands for the stamp in a body: as many characters as it has digits.
pub const STAMP: &str = "@@@@@@@@@@@@@@@@@@@@";

/// Stands for the number of the request.
pub const NUMBER: &str = "##########";

/// A request with places for its stamp and its number.
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
    /// After so many requests the numbers begin again.
    cycle: u64,
}

impl Template {
    /// A `GET`.
    #[must_use]
    pub fn get(host: &str, path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes();
        Self { request, stamps: Vec::new(), numbers: Vec::new(), cycle: u64::MAX }
    }

    /// A `POST` of this body. Every [`STAMP`] and [`NUMBER`] in it is a place.
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

    /// Numbers begin again after so many.
    #[must_use]
    pub fn cycle(self, cycle: u64) -> Self {
        Self { cycle: cycle.max(1), ..self }
    }

    /// Writes a request into a buffer, over what is there.
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
