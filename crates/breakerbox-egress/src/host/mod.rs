//! The resources that the process needs from its host, and how it detects a lack of them.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`local_fault`] | decides which operating-system errors are faults of this host |
//! | [`descriptors`] | raises the limit of open files, and divides it |
//! | [`Pauses`] | detects pauses of the process |

pub mod descriptors;
mod pauses;

use std::io;

use breakerbox_model::delivery::LocalFault;
use rustix::io::Errno;

pub use self::pauses::Pauses;

/// Maps an operating-system error to a fault of this host. Returns `None` if the error concerns the peer, or is
/// unknown.
///
/// `EADDRNOTAVAIL` counts as a lack of ports. The same error occurs if the host has no local address that can reach the
/// target, so the caller has to distinguish the two cases.
#[must_use]
pub fn local_fault(error: &io::Error) -> Option<LocalFault> {
    match Errno::from_io_error(error)? {
        Errno::MFILE | Errno::NFILE => Some(LocalFault::Descriptors),
        Errno::NOBUFS | Errno::NOMEM => Some(LocalFault::Memory),
        Errno::ADDRNOTAVAIL => Some(LocalFault::Ports),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_this_host_are_told_from_those_of_others() {
        let of = |errno: Errno| local_fault(&io::Error::from(errno));
        assert_eq!(of(Errno::MFILE), Some(LocalFault::Descriptors));
        assert_eq!(of(Errno::NFILE), Some(LocalFault::Descriptors));
        assert_eq!(of(Errno::NOBUFS), Some(LocalFault::Memory));
        assert_eq!(of(Errno::NOMEM), Some(LocalFault::Memory));
        assert_eq!(of(Errno::ADDRNOTAVAIL), Some(LocalFault::Ports));
        for other in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT, Errno::NETUNREACH, Errno::PIPE] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(local_fault(&io::Error::other("no errno")), None);
    }
}
