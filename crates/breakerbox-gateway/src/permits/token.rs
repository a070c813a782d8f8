//! Tokens: a worker gets a token for a permit, and sends it back to settle the permit. Tokens are sealed: workers can't
//! forge, alter or read them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox_core::{Ticket, Timestamp};
use breakerbox_model::objects::{CircuitOwner, PermitId, PermitTerm, Priority, TenantId};
use breakerbox_storage::secrets::{Keyring, Owner, Sealed};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "per_";

/// The maximum length of a token, in characters. Longer strings are rejected without being parsed.
pub const LONGEST_TOKEN: usize = 4_096;

/// The context of the seal, so that no other sealed value is accepted as a token.
const OWNER: Owner<'static> = Owner { what: "permit", name: "" };

/// The decrypted content of a worker's token.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    /// The permit's identity and expiry.
    pub term: PermitTerm,
    /// The ticket that settles the permit.
    pub ticket: Ticket,
    /// The priority of the call.
    pub priority: Priority,
}

/// The content to seal: the permit's term, priority and ticket.
#[derive(Serialize, Deserialize)]
struct Written(u64, u64, Timestamp, u8, Ticket);

impl Token {
    /// Returns the tenant of the circuit. `None` if the key can't belong to a tenant.
    #[must_use]
    pub fn tenant(&self) -> Option<TenantId> {
        CircuitOwner::of_key(&self.ticket.key).map(|owner| owner.tenant)
    }

    /// Returns the sealed token for the worker.
    #[must_use]
    pub fn seal(&self, keyring: &Keyring) -> String {
        let id = u128::from_be_bytes(self.term.id.0);
        #[allow(clippy::cast_possible_truncation, reason = "each is one half of it")]
        let (high, low) = ((id >> 64) as u64, id as u64);
        let priority = Priority::ALL.iter().position(|other| *other == self.priority).unwrap_or_default();
        let priority = u8::try_from(priority).unwrap_or_default();
        let written = Written(high, low, self.term.expires_at, priority, self.ticket.clone());
        let written = serde_json::to_vec(&written).expect("plain structures have a JSON");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(keyring.seal(&written, OWNER).0))
    }

    /// Decrypts a worker's token. Returns `None` if the token was not sealed with one of these keys.
    #[must_use]
    pub fn open(text: &str, keyring: &Keyring) -> Option<Self> {
        let encoded = text.strip_prefix(PREFIX).filter(|_| text.len() <= LONGEST_TOKEN)?;
        let sealed = Sealed(URL_SAFE_NO_PAD.decode(encoded).ok()?);
        let written = keyring.open(&sealed, OWNER).ok()?;
        let Written(high, low, expires_at, priority, ticket) = serde_json::from_slice(&written).ok()?;
        let id = u128::from(high) << 64 | u128::from(low);
        Some(Self {
            term: PermitTerm { id: PermitId(id.to_be_bytes()), expires_at },
            ticket,
            priority: Priority::ALL.get(usize::from(priority)).copied()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::{Epoch, MAX_KEY_LENGTH, Nonce, TicketKind};

    use super::*;
    use breakerbox_storage::secrets::MasterKey;

    fn token(key: &str, kind: TicketKind) -> Token {
        Token {
            term: PermitTerm {
                id: PermitId::random(),
                expires_at: Timestamp::from_millis(1_700_000_000_000),
            },
            ticket: Ticket::new(key.into(), Epoch(7), Timestamp::from_millis(5), kind),
            priority: Priority::Low,
        }
    }

    #[test]
    fn what_was_sealed_is_read_back_and_tells_nothing() {
        let keyring = Keyring::new(&MasterKey::random());
        let probe = TicketKind::Probe { nonce: Nonce(u128::MAX), deadline: Timestamp::from_micros(u64::MAX) };
        for kind in [TicketKind::Call, probe, TicketKind::Uncounted] {
            let token = token("acme https://hooks.example.com/in", kind);
            let text = token.seal(&keyring);
            assert_eq!(Token::open(&text, &keyring).as_ref(), Some(&token));
            assert!(text.len() < 600 && !text.contains("acme"), "{text}");
            assert_eq!(token.tenant().unwrap().as_str(), "acme");
        }
        // The longest possible token: each character of its key is escaped.
        let longest = token(&"\"".repeat(MAX_KEY_LENGTH), probe).seal(&keyring);
        assert!(Token::open(&longest, &keyring).is_some(), "{} characters", longest.len());
    }

    #[test]
    fn what_was_changed_or_sealed_by_others_opens_nothing() {
        let keyring = Keyring::new(&MasterKey::random());
        let text = token("acme https://hooks.example.com/in", TicketKind::Call).seal(&keyring);
        for at in PREFIX.len()..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Token::open(std::str::from_utf8(&changed).unwrap(), &keyring), None, "at {at}");
            assert_eq!(Token::open(&text[..at], &keyring), None, "cut at {at}");
        }
        assert_eq!(Token::open(&text, &Keyring::new(&MasterKey::random())), None);
        let other_kind = keyring.seal(b"[1,2,3,0,{}]", Owner { what: "endpoint", name: "" });
        let long = format!("{PREFIX}{}", "A".repeat(LONGEST_TOKEN));
        for text in ["", "per_", "per_%", &long, &format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(other_kind.0))]
        {
            assert_eq!(Token::open(text, &keyring), None);
        }
    }
}
