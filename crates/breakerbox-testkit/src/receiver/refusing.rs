//! A port where every connection is refused.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A port of this machine that is taken and not listened on: who connects is refused, and nobody else can have it.
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
    /// Takes one.
    ///
    /// # Errors
    /// If there is none.
    pub fn new() -> io::Result<Self> {
        let taken = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&taken, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = getsockname(&taken)?.try_into()?;
        Ok(Self { _taken: taken, address })
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path there.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
