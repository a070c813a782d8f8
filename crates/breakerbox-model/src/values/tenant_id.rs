//! The name and the number that identify a tenant.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The maximum length of a tenant's name, in bytes.
const MAX_LENGTH: usize = 64;

/// The name of a tenant, chosen by the operator. The key of each of the tenant's circuits begins with it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks the name of a new tenant. A name made only of dots can't be used in a path: `/v1/tenants/..` means `/v1`,
    /// so such a tenant could never be changed or deleted.
    ///
    /// # Errors
    /// Returns an error if the name consists only of dots. Existing tenants with such names can still be read.
    pub fn check_new(&self) -> Result<(), DotsOnly> {
        if self.0.bytes().all(|byte| byte == b'.') { Err(DotsOnly) } else { Ok(()) }
    }
}

/// The number of a tenant. Unlike its name, it is never reused, because data left by a deleted tenant still refers to
/// its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TenantNumber(pub i64);

/// The name consists only of dots, so a tenant can't be created with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must not consist of dots only, because it is part of paths; add a letter or a digit")]
pub struct DotsOnly;

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The string can't be the name of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be 1 to {MAX_LENGTH} characters of a-z, A-Z, 0-9, `.`, `_` and `-`")]
pub struct TenantIdError;

impl FromStr for TenantId {
    type Err = TenantIdError;

    fn from_str(text: &str) -> Result<Self, TenantIdError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > MAX_LENGTH || !text.bytes().all(fits) {
            return Err(TenantIdError);
        }
        Ok(Self(text.into()))
    }
}
