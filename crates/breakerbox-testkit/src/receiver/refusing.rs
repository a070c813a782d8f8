//! A port that refuses every connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A local port that is bound without a listener, so that every connection is refused, and no other process can
/// bind the port.
///
/// ```
/// let port = breakerbox_testkit::receiver::RefusingPort::new()?;
/// let refused = std::net::TcpStream::connect(port.address()).unwrap_err();
/// assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RefusingPort {
    _taken: OwnedFd,
    address: SocketAddr,
}

impl RefusingPort {
    /// Binds a free port.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub fn new() -> io::Result<Self> {
        let taken = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&taken, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = getsockname(&taken)?.try_into()?;
        Ok(Self { _taken: taken, address })
    }

    /// Returns the address of the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for a path on this port.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
