//! Secrets at rest: signing secrets and custom headers are sealed before they reach the database. The master key never
//! reaches it.
//!
//! | part | task |
//! | --- | --- |
//! | [`MasterKey`] | 32 random bytes, written as base64; identified by an id that does not reveal it |
//! | [`Keyring`] | the newest key seals, all of them open |
//! | [`Owner`] | the object that a sealed value belongs to: a value that was moved to another row does not open |
//! | [`KeySource`] | an environment variable's value, or a file that only its owner can read |
//! | [`private_file`] | reads and creates such files |
//!
//! A stolen database, or a backup of one, reveals no secret. An attacker who can read the process's memory, or the key
//! file, has them all; that is not guarded against.
//!
//! **Rotation.** Put a new key before the others, restart, reseal everything in the background (`reseal` of the
//! database), then remove the old one. A start without a key that is still needed is refused.
//!
//! Nothing here is logged, and `Debug` shows ids only.

mod error;
mod keyring;
mod master_key;
pub mod private_file;
mod source;

pub use error::SecretsError;
pub use keyring::{Keyring, Owner, Sealed};
pub use master_key::{KeyId, MasterKey};
pub use source::{KEY_VARIABLE, KeySource};
