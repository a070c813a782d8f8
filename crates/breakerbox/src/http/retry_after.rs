//! Parses the header `Retry-After`.

use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// Returns how long the destination asks callers to wait; `None` without a valid `Retry-After`.
///
/// The header contains seconds or a date. A date is compared with the response's own `Date` header if there is one,
/// because clocks differ. A date in the past yields zero. A number that is too large becomes a very long time; the
/// policy limits how long a circuit stays open.
///
/// ```
/// use breakerbox::http::retry_after;
/// use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
/// assert_eq!(retry_after(&headers, SystemTime::now()), Some(Duration::from_secs(120)));
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = text_of(headers, &RETRY_AFTER)?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let now = text_of(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(at.duration_since(now).unwrap_or_default())
}

fn text_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// The Unix time of Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Duration = Duration::from_secs(784_111_777);

    fn read(retry_after_value: &[u8], date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_bytes(retry_after_value).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers, SystemTime::UNIX_EPOCH + NOW)
    }

    #[test]
    fn seconds_dates_and_what_is_neither() {
        let table: [(&[u8], Option<u64>); 22] = [
            (b"0", Some(0)),
            (b"120", Some(120)),
            (b" 120 ", Some(120)),
            (b"007", Some(7)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", Some(u64::MAX)),
            (b"99999999999999999999999999999999999999", Some(u64::MAX)),
            (b"-5", None),
            (b"+5", None),
            (b"1.5", None),
            (b"5s", None),
            (b"5, 7", None),
            (b"", None),
            (b" ", None),
            (b"soon", None),
            (b"\xff\xfe", None),
            (b"Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            (b"Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            (b"Sun Nov  6 08:50:37 1994", Some(60)),
            (b"Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            (b"Sun, 06 Nov 1994 07:00:00 GMT", Some(0)),
            (b"Sun, 32 Nov 1994 08:50:37 GMT", None),
        ];
        for (value, seconds) in table {
            let text = String::from_utf8_lossy(value);
            assert_eq!(read(value, None), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::UNIX_EPOCH), None);
    }

    #[test]
    fn a_date_is_compared_with_the_destinations_own_clock() {
        let at = b"Sun, 06 Nov 1994 12:00:30 GMT";
        assert_eq!(read(at, Some("Sun, 06 Nov 1994 12:00:00 GMT")), Some(Duration::from_secs(30)));
        assert_eq!(
            read(at, Some("long ago")),
            read(at, None),
            "a date that can't be read is as good as none"
        );
        assert_eq!(
            read(b"30", Some("Sun, 06 Nov 1994 12:00:00 GMT")),
            Some(Duration::from_secs(30)),
            "seconds need no clock"
        );
    }

    #[test]
    fn of_two_the_first_counts() {
        let mut headers = HeaderMap::new();
        headers.append(RETRY_AFTER, HeaderValue::from_static("5"));
        headers.append(RETRY_AFTER, HeaderValue::from_static("50"));
        assert_eq!(retry_after(&headers, SystemTime::UNIX_EPOCH), Some(Duration::from_secs(5)));
    }
}
