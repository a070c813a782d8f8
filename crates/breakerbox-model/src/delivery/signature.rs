//! Standard Webhooks signatures: `v1`, an HMAC-SHA256 over `id.timestamp.payload`.
//!
//! During a rotation there are two secrets: the sender signs with both, and a receiver accepts either. HMAC keys are
//! prepared once per endpoint, so that signing a request only hashes its content.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

use crate::values::Secret;

/// The header with the event's id, which is the same for all retries and resends of the event.
pub const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
/// The header with the time of signing, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// The header with the signatures, one for each secret.
pub const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The header with the event's type, such as `invoice.paid`. The signature does not cover it.
pub const WEBHOOK_EVENT_TYPE: HeaderName = HeaderName::from_static("webhook-event-type");
/// The maximum difference between a request's timestamp and the receiver's clock.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// The prefix of a version 1 signature.
const SCHEME: &str = "v1,";
/// The maximum number of a request's signatures that are verified. A rotation needs only two.
const MAX_SIGNATURES: usize = 16;

type Prepared = Hmac<Sha256>;

/// Signs and verifies with the secrets of one endpoint.
///
/// ```
/// use breakerbox_model::delivery::Signer;
/// use breakerbox_model::objects::Secret;
///
/// let signer = Signer::new(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse::<Secret>()?]);
/// let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// # Ok::<(), breakerbox_model::objects::SecretError>(())
/// ```
#[derive(Clone)]
pub struct Signer {
    keys: Vec<Prepared>,
}

/// Why a request's signature is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The header with this name is missing, or can't be parsed.
    #[error("the header {0} is missing or can't be read")]
    Header(&'static str),
    /// The request was signed this long ago, which is more than [`TOLERANCE`]: it may be a replay attack.
    #[error("the signature is {} s old; at most {} s are allowed; check the clocks", .0.as_secs(), TOLERANCE.as_secs())]
    TooOld(Duration),
    /// The timestamp is this far in the future, which is more than [`TOLERANCE`].
    #[error("the signature is {} s in the future; at most {} s are allowed; check the clocks", .0.as_secs(), TOLERANCE.as_secs())]
    TooNew(Duration),
    /// No signature matches any of the secrets and this payload.
    #[error("no signature matches; check the secret, and verify the payload byte for byte as received")]
    NoneFits,
}

impl Signer {
    /// Creates a signer that adds one signature for each of these secrets, and accepts signatures made with
    /// any of them.
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        let prepare = |secret: &Secret| {
            Prepared::new_from_slice(secret.bytes()).expect("an HMAC takes a key of any length")
        };
        Self { keys: secrets.iter().map(prepare).collect() }
    }

    /// Returns the value of the `webhook-signature` header. It is empty if there is no secret.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: u64, payload: &[u8]) -> HeaderValue {
        // Each signature is `v1,`, 44 characters and a space.
        let mut text = String::with_capacity(self.keys.len() * 48);
        for key in &self.keys {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(SCHEME);
            let code = signed(key, id, &timestamp.to_string(), payload).finalize().into_bytes();
            STANDARD.encode_string(code, &mut text);
        }
        HeaderValue::try_from(text).expect("base64, commas and spaces are fit for a header")
    }

    /// Inserts the three Standard Webhooks headers into a request's headers. An id that is not a valid header value
    /// is omitted; the gateway's own ids are always valid.
    pub fn add_to(&self, headers: &mut HeaderMap, id: &str, timestamp: u64, payload: &[u8]) {
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(WEBHOOK_ID, id);
        }
        headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp));
        if !self.keys.is_empty() {
            headers.insert(WEBHOOK_SIGNATURE, self.sign(id, timestamp, payload));
        }
    }

    /// Verifies a request. `now` is in seconds since 1970. Signatures are compared in constant time.
    ///
    /// # Errors
    /// Returns the reason why the request is not accepted.
    pub fn verify(&self, headers: &HeaderMap, payload: &[u8], now: u64) -> Result<(), SignatureError> {
        let id = text(headers, &WEBHOOK_ID, "webhook-id")?;
        let timestamp = text(headers, &WEBHOOK_TIMESTAMP, "webhook-timestamp")?;
        let signatures = text(headers, &WEBHOOK_SIGNATURE, "webhook-signature")?;
        let signed_at: u64 = timestamp.parse().map_err(|_| SignatureError::Header("webhook-timestamp"))?;
        let fits = |signature: &str| {
            let code = signature.strip_prefix(SCHEME).and_then(|code| STANDARD.decode(code).ok());
            code.is_some_and(|code| {
                self.keys.iter().any(|key| signed(key, id, timestamp, payload).verify_slice(&code).is_ok())
            })
        };
        if !signatures.split(' ').take(MAX_SIGNATURES).any(fits) {
            return Err(SignatureError::NoneFits);
        }
        // Checked after the signature, so that a sender without the secret learns nothing about the local clock.
        let (age, ahead) = (now.saturating_sub(signed_at), signed_at.saturating_sub(now));
        if age > TOLERANCE.as_secs() {
            return Err(SignatureError::TooOld(Duration::from_secs(age)));
        }
        if ahead > TOLERANCE.as_secs() {
            return Err(SignatureError::TooNew(Duration::from_secs(ahead)));
        }
        Ok(())
    }
}

/// Returns the HMAC state after hashing the signed content: the id, the timestamp as it appears in the
/// header, and the payload.
fn signed(key: &Prepared, id: &str, timestamp: &str, payload: &[u8]) -> Prepared {
    let mut code = key.clone();
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", payload] {
        code.update(part);
    }
    code
}

fn text<'h>(
    headers: &'h HeaderMap,
    header: &HeaderName,
    name: &'static str,
) -> Result<&'h str, SignatureError> {
    let value = headers.get(header).and_then(|value| value.to_str().ok());
    value.filter(|value| !value.is_empty()).ok_or(SignatureError::Header(name))
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(")?;
        write!(f, "{} secrets", self.keys.len())?;
        f.write_char(')')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret in the test vector of the official Standard Webhooks libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: u64 = 1_614_265_330;
    const PAYLOAD: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn signer(secrets: &[&str]) -> Signer {
        Signer::new(&secrets.iter().map(|secret| secret.parse().unwrap()).collect::<Vec<_>>())
    }

    fn other_secret() -> String {
        Secret::new(vec![7; 24]).unwrap().reveal()
    }

    fn headers(id: &str, timestamp: &str, signature: &str) -> HeaderMap {
        let named = [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, timestamp), (WEBHOOK_SIGNATURE, signature)];
        named.into_iter().map(|(name, value)| (name, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn signs_the_published_example() {
        assert_eq!(signer(&[SECRET]).sign(ID, TIMESTAMP, PAYLOAD), SIGNATURE);
        let mut headers = HeaderMap::new();
        signer(&[SECRET]).add_to(&mut headers, ID, TIMESTAMP, PAYLOAD);
        assert_eq!(headers, self::headers(ID, "1614265330", SIGNATURE));
        headers.clear();
        signer(&[]).add_to(&mut headers, ID, TIMESTAMP, PAYLOAD);
        assert!(!headers.contains_key(WEBHOOK_SIGNATURE), "nothing is better than an empty one");
    }

    #[test]
    fn either_secret_of_a_rotation_verifies() {
        let other = other_secret();
        let signed = signer(&[&other, SECRET]).sign(ID, TIMESTAMP, PAYLOAD);
        let text = signed.to_str().unwrap();
        assert_eq!(text.split(' ').nth(1), Some(SIGNATURE));
        let headers = headers(ID, "1614265330", text);
        for secrets in [&[SECRET][..], &[&other], &[SECRET, &other]] {
            assert_eq!(signer(secrets).verify(&headers, PAYLOAD, TIMESTAMP), Ok(()), "{secrets:?}");
        }
    }

    #[test]
    fn a_clock_may_be_five_minutes_off() {
        use SignatureError::{TooNew, TooOld};
        let headers = headers(ID, "1614265330", SIGNATURE);
        let secs = Duration::from_secs;
        let table = [
            (TIMESTAMP - 300, Ok(())),
            (TIMESTAMP - 301, Err(TooNew(secs(301)))),
            (TIMESTAMP + 300, Ok(())),
            (TIMESTAMP + 301, Err(TooOld(secs(301)))),
            (0, Err(TooNew(secs(TIMESTAMP)))),
            (u64::MAX, Err(TooOld(secs(u64::MAX - TIMESTAMP)))),
        ];
        for (now, expected) in table {
            assert_eq!(signer(&[SECRET]).verify(&headers, PAYLOAD, now), expected, "{now}");
        }
    }

    #[test]
    fn nothing_else_verifies() {
        use SignatureError::{Header, NoneFits};
        let many = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(16));
        let table = [
            (headers("", "1614265330", SIGNATURE), Header("webhook-id")),
            (headers(ID, "", SIGNATURE), Header("webhook-timestamp")),
            (headers(ID, "-1", SIGNATURE), Header("webhook-timestamp")),
            (headers(ID, "99999999999999999999", SIGNATURE), Header("webhook-timestamp")),
            (headers(ID, "1614265330", ""), Header("webhook-signature")),
            (HeaderMap::new(), Header("webhook-id")),
            (headers("msg_other", "1614265330", SIGNATURE), NoneFits),
            (headers(ID, "1614265331", SIGNATURE), NoneFits),
            (headers(ID, "01614265330", SIGNATURE), NoneFits),
            (headers(ID, "1614265330", &SIGNATURE.replace("v1,", "v2,")), NoneFits),
            (headers(ID, "1614265330", &SIGNATURE.replace("v1,", "v1a,")), NoneFits),
            (headers(ID, "1614265330", &SIGNATURE[3..]), NoneFits),
            (headers(ID, "1614265330", &SIGNATURE[..20]), NoneFits),
            (headers(ID, "1614265330", "v1,"), NoneFits),
            (headers(ID, "1614265330", &many), NoneFits),
        ];
        for (headers, error) in table {
            assert_eq!(signer(&[SECRET]).verify(&headers, PAYLOAD, TIMESTAMP), Err(error), "{headers:?}");
        }
        let right = headers(ID, "1614265330", SIGNATURE);
        assert_eq!(signer(&[SECRET]).verify(&right, b"{}", TIMESTAMP), Err(NoneFits));
        assert_eq!(signer(&[&other_secret()]).verify(&right, PAYLOAD, TIMESTAMP), Err(NoneFits));
        assert_eq!(signer(&[]).verify(&right, PAYLOAD, TIMESTAMP), Err(NoneFits));
        let mixed = format!("v1a,AAAA garbage {SIGNATURE}");
        let mixed = headers(ID, "1614265330", &mixed);
        assert_eq!(signer(&[SECRET]).verify(&mixed, PAYLOAD, TIMESTAMP), Ok(()), "others are passed over");
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", signer(&[SECRET])), "Signer(1 secrets)");
    }
}
