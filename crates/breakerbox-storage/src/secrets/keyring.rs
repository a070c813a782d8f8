//! Sealing (encrypting) and opening values: XChaCha20-Poly1305, whose nonces are long enough to be random, with the
//! value's owner as associated data.
//!
//! A sealed value consists of one byte for the format version, the key's id, the nonce, and the ciphertext with its
//! tag.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::master_key::ID_LENGTH;
use super::{KeyId, MasterKey, SecretsError};

const VERSION: u8 = 1;
const NONCE_LENGTH: usize = 24;
const HEAD_LENGTH: usize = 1 + ID_LENGTH + NONCE_LENGTH;

/// The object that a sealed value belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner<'o> {
    /// The kind of object, as one word such as `endpoint`.
    pub what: &'static str,
    /// The id or name of the object.
    pub name: &'o str,
}

impl Owner<'_> {
    /// Returns the associated data for the encryption, which ties a sealed value to its owner. The kind and
    /// the name are separated by a zero byte, which no kind contains, so different owners have different
    /// data.
    fn associated(self) -> Vec<u8> {
        [self.what.as_bytes(), &[0], self.name.as_bytes()].concat()
    }
}

/// A sealed (encrypted) value, as the database stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed(pub Vec<u8>);

impl Sealed {
    /// Returns the id of the key that sealed the value, or `None` if the bytes are not a sealed value.
    #[must_use]
    pub fn key(&self) -> Option<KeyId> {
        let (version, rest) = self.0.split_first()?;
        if *version != VERSION || self.0.len() < HEAD_LENGTH {
            return None;
        }
        rest.first_chunk().copied().map(KeyId)
    }
}

/// The available master keys, newest first. `Debug` shows only their ids.
pub struct Keyring {
    newest: Ring,
    older: Vec<Ring>,
}

struct Ring {
    id: KeyId,
    cipher: XChaCha20Poly1305,
}

impl Ring {
    fn of(key: &MasterKey) -> Self {
        Self { id: key.id(), cipher: XChaCha20Poly1305::new(key.bytes().into()) }
    }
}

impl Keyring {
    /// Creates a keyring with only this key.
    #[must_use]
    pub fn new(key: &MasterKey) -> Self {
        Self { newest: Ring::of(key), older: Vec::new() }
    }

    /// Creates a keyring with these keys, newest first, or returns `None` if there are none.
    #[must_use]
    pub fn newest_first(keys: &[MasterKey]) -> Option<Self> {
        let (newest, older) = keys.split_first()?;
        Some(Self { newest: Ring::of(newest), older: older.iter().map(Ring::of).collect() })
    }

    /// Returns the id of the newest key, which seals new values.
    #[must_use]
    pub const fn newest(&self) -> KeyId {
        self.newest.id
    }

    /// Returns whether there are older keys, with which some values may be sealed.
    #[must_use]
    pub const fn has_older(&self) -> bool {
        !self.older.is_empty()
    }

    /// Seals a value for its owner, with the newest key.
    ///
    /// # Panics
    /// If the value is longer than 256 GiB.
    #[must_use]
    pub fn seal(&self, value: &[u8], owner: Owner<'_>) -> Sealed {
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let payload = Payload { msg: value, aad: &owner.associated() };
        let sealed = self.newest.cipher.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.expect("only values that no memory holds are too long");
        Sealed([&[VERSION], &self.newest.id.0[..], &nonce, &sealed].concat())
    }

    /// Opens a value that was sealed for this owner.
    ///
    /// # Errors
    /// Returns [`KeyMissing`](SecretsError::KeyMissing) if the keyring does not contain the key, or
    /// [`Damaged`](SecretsError::Damaged) if the value was modified or belongs to another owner.
    pub fn open(&self, sealed: &Sealed, owner: Owner<'_>) -> Result<Vec<u8>, SecretsError> {
        let Owner { what, name } = owner;
        let damaged = || SecretsError::Damaged { what, name: name.to_owned() };
        let id = sealed.key().ok_or_else(damaged)?;
        let missing = || SecretsError::KeyMissing { what, name: name.to_owned(), key: id };
        let ring = std::iter::once(&self.newest).chain(&self.older).find(|ring| ring.id == id);
        let (head, ciphertext) = sealed.0.split_at_checked(HEAD_LENGTH).ok_or_else(damaged)?;
        let nonce: &[u8; NONCE_LENGTH] = head.last_chunk().ok_or_else(damaged)?;
        let payload = Payload { msg: ciphertext, aad: &owner.associated() };
        ring.ok_or_else(missing)?.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| damaged())
    }

    /// Reseals a value with the newest key, or returns `None` if it is already sealed with that key.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn reseal(&self, sealed: &Sealed, owner: Owner<'_>) -> Result<Option<Sealed>, SecretsError> {
        if sealed.key() == Some(self.newest.id) {
            return Ok(None);
        }
        Ok(Some(self.seal(&self.open(sealed, owner)?, owner)))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entry(&self.newest.id).entries(self.older.iter().map(|ring| ring.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner<'_> = Owner { what: "endpoint", name: "ep_1" };

    #[test]
    fn what_was_sealed_opens_for_its_owner_alone() {
        let keyring = Keyring::new(&MasterKey::random());
        let sealed = keyring.seal(b"hush", OWNER);
        assert_eq!(keyring.open(&sealed, OWNER).unwrap(), b"hush");
        assert!(!sealed.0.windows(4).any(|window| window == b"hush"));
        assert_ne!(sealed, keyring.seal(b"hush", OWNER), "no two nonces are the same");
        for other in [
            Owner { name: "ep_2", ..OWNER },
            Owner { what: "tenant", ..OWNER },
            Owner { what: "endpoin", name: "tep_1" },
        ] {
            assert!(matches!(keyring.open(&sealed, other), Err(SecretsError::Damaged { .. })), "{other:?}");
        }
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let keyring = Keyring::new(&MasterKey::random());
        let sealed = keyring.seal(b"hush", OWNER);
        for place in 0..sealed.0.len() {
            let mut changed = sealed.clone();
            changed.0[place] ^= 1;
            assert!(keyring.open(&changed, OWNER).is_err(), "byte {place}");
            assert!(keyring.open(&Sealed(sealed.0[..place].to_vec()), OWNER).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn the_newest_key_seals_and_all_open() {
        let (old, new) = (MasterKey::random(), MasterKey::random());
        let sealed = Keyring::new(&old).seal(b"hush", OWNER);
        let both = Keyring::newest_first(&[new.clone(), old.clone()]).unwrap();
        assert_eq!(both.open(&sealed, OWNER).unwrap(), b"hush");
        let again = both.reseal(&sealed, OWNER).unwrap().unwrap();
        assert_eq!((again.key(), both.reseal(&again, OWNER).unwrap()), (Some(new.id()), None));
        let only_new = Keyring::new(&new);
        assert_eq!(only_new.open(&again, OWNER).unwrap(), b"hush");
        let error = only_new.open(&sealed, OWNER).unwrap_err().to_string();
        assert!(error.contains(&old.id().to_string()) && error.contains("ep_1"), "{error}");
    }

    #[test]
    fn keys_hide() {
        let key = MasterKey::random();
        let shown = format!("{key:?} {:?}", Keyring::new(&key));
        assert!(!shown.contains(&key.reveal()), "{shown}");
        assert_eq!(shown.matches(&key.id().to_string()).count(), 2, "{shown}");
    }
}
