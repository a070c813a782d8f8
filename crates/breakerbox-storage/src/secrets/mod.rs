//! Secrets at rest: signing secrets and custom headers are sealed (encrypted) before they are stored in the database.
//! The master key is never stored there.
//!
//! | part | task |
//! | --- | --- |
//! | [`MasterKey`] | 32 random bytes, written as base64, with an id that does not reveal them |
//! | [`Keyring`] | all available keys: the newest seals new values, and each opens the values that it sealed |
//! | [`Owner`] | the object that a sealed value belongs to: a value moved to another row can't be opened |
//! | [`KeySource`] | an environment variable's value, or a file that only its owner can read |
//! | [`private_file`] | reads and creates such files |
//!
//! A stolen database or backup reveals no secret. An attacker who can read the process's memory or the key file has
//! them all; there is no protection against that.
//!
//! **Rotation.** Put a new key before the others, restart, reseal everything in the background (`reseal` of the
//! database), then remove the old one. The gateway refuses to start if a key that is still needed is missing.
//!
//! This module logs nothing, and `Debug` shows only ids.

mod error;
mod keyring;
mod master_key;
pub mod private_file;
mod source;

pub use error::SecretsError;
pub use keyring::{Keyring, Owner, Sealed};
pub use master_key::{KeyId, MasterKey};
pub use source::{KEY_VARIABLE, KeySource};
