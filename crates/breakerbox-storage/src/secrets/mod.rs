//! Secrets at rest: signing secrets and custom headers are sealed before they reach the database, with a master key that never
//! does.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`MasterKey`] | 32 random bytes, written as base64; known by an id that gives nothing away |
//! | [`Keyring`] | the newest key seals, all of them open |
//! | [`Owner`] | what a sealed value belongs to: one that was moved to another row does not open |
//! | [`KeySource`] | an environment variable's value, or a file that only its owner can read |
//! | [`private_file`] | such files: read, and made |
//!
//! A stolen database, or a backup of one, gives no secret away. Whoever can read the process's memory, or the key file, has
//! them all; that is not guarded against.
//!
//! **Rotation.** Put a new key before the others, restart, seal everything again in the background
//! (`reseal` of the database), then take the old one away. A start with a key missing that is still needed is refused.
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
