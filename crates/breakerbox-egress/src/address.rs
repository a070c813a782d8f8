//! The address policy: requests may go to public addresses, and to addresses that the operator allows.
//!
//! An address is not public if IANA's registries of special-purpose addresses list it. In IPv6, only addresses in
//! 2000::/3 (global unicast) can be public. An IPv6 address that embeds an IPv4 address is checked as that IPv4
//! address; obsolete forms of such addresses are always denied.
//!
//! The policy checks addresses, never host names, since a name can resolve to any address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

const DENIED_BY_OPERATOR: &str = "an address that the operator denies";

/// Decides which addresses the gateway may call.
///
/// ```
/// use breakerbox_egress::AddressPolicy;
///
/// let policy = AddressPolicy::default();
/// assert!(policy.check("93.184.215.14".parse()?).is_ok());
/// assert_eq!(policy.check("::ffff:10.0.0.7".parse()?).unwrap_err().to_string(), "a private address (10.0.0.0/8)");
///
/// let policy = AddressPolicy::allowing(["10.0.0.0/24".parse()?]);
/// assert!(policy.check("10.0.0.7".parse()?).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressPolicy {
    allowed: Vec<IpNet>,
    denied: Vec<IpNet>,
}

/// The reason why an address is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeniedAddress {
    kind: &'static str,
    net: IpNet,
}

impl AddressPolicy {
    /// Creates a policy that allows public addresses and these networks.
    #[must_use]
    pub fn allowing(allowed: impl IntoIterator<Item = IpNet>) -> Self {
        Self { allowed: allowed.into_iter().collect(), denied: Vec::new() }
    }

    /// Also denies these networks, even if they are public or allowed, such as the operator's own public networks or
    /// its NAT64 prefix.
    #[must_use]
    pub fn denying(self, denied: impl IntoIterator<Item = IpNet>) -> Self {
        Self { denied: denied.into_iter().collect(), ..self }
    }

    /// Checks whether an address may be called.
    ///
    /// # Errors
    /// Returns the reason if the address is denied.
    pub fn check(&self, address: IpAddr) -> Result<(), DeniedAddress> {
        // The system connects to the IPv4 address in an IPv4-mapped IPv6 address.
        let address = address.to_canonical();
        if let Some(net) = self.denied.iter().find(|net| net.contains(&address)) {
            return Err(DeniedAddress { kind: DENIED_BY_OPERATOR, net: *net });
        }
        if self.allowed.iter().any(|net| net.contains(&address)) {
            return Ok(());
        }
        match address {
            IpAddr::V4(address) => special_v4(address),
            IpAddr::V6(address) => match stands_for(address) {
                Some(inner) => self.check(inner.into()),
                None => special_v6(address),
            },
        }
    }
}

impl AddressPolicy {
    /// Checks the literal address in a URL. A URL with a host name passes, because the name's addresses are checked
    /// when the URL is called.
    ///
    /// ```
    /// use breakerbox_egress::AddressPolicy;
    ///
    /// let refused = AddressPolicy::default().check_url(&"http://10.0.0.7/in".parse()?).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "10.0.0.7 is a private address (10.0.0.0/8), which is never called; use a public address, or have the operator \
    ///      allow it: `--allow 10.0.0.7` (egress.allow)"
    /// );
    /// # Ok::<(), url::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the reason if the address is denied, and advice for the client.
    pub fn check_url(&self, url: &Url) -> Result<(), DeniedUrl> {
        let address: IpAddr = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.check(address).map_err(|denied| DeniedUrl { address: address.to_canonical(), denied })
    }
}

impl DeniedAddress {
    /// Returns the kind of address, such as `a private address`, without its network.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    fn is_denied_by_operator(&self) -> bool {
        self.kind == DENIED_BY_OPERATOR
    }
}

/// The reason why a URL with a literal address is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeniedUrl {
    address: IpAddr,
    denied: DeniedAddress,
}

impl fmt::Display for DeniedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, denied } = self;
        if denied.is_denied_by_operator() {
            // Not everyone who can create an endpoint may learn which networks the operator denies.
            return write!(f, "{address} is {DENIED_BY_OPERATOR} (egress.deny); use another address");
        }
        write!(
            f,
            "{address} is {denied}, which is never called; use a public address, or have the operator allow it: \
             `--allow {address}` (egress.allow)"
        )
    }
}

impl fmt::Display for DeniedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.net)
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

/// Returns the IPv6 network `a:b:c::/length`.
const fn v6(a: u16, b: u16, c: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), length)
}

const SPECIAL_V4: [(Ipv4Net, &str); 19] = [
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(169, 254, 169, 254, 32), "a cloud metadata address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(100, 100, 100, 200, 32), "a cloud metadata address"),
    (v4(100, 64, 0, 0, 10), "a carrier-grade NAT address"),
    (v4(168, 63, 129, 16, 32), "a cloud metadata address"),
    (v4(0, 0, 0, 0, 8), "an address of this machine"),
    (v4(192, 0, 0, 0, 24), "an address reserved for protocols"),
    (v4(192, 0, 2, 0, 24), "an address for documentation"),
    (v4(198, 51, 100, 0, 24), "an address for documentation"),
    (v4(203, 0, 113, 0, 24), "an address for documentation"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (v4(198, 18, 0, 0, 15), "an address for benchmarks"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(255, 255, 255, 255, 32), "the broadcast address"),
    (v4(240, 0, 0, 0, 4), "a reserved address"),
];

/// Special-purpose networks within 2000::/3, which is otherwise public.
const SPECIAL_V6: [(Ipv6Net, &str); 5] = [
    (v6(0x2001, 0, 0, 23), "an address reserved for protocols"),
    (v6(0x2001, 0xdb8, 0, 32), "an address for documentation"),
    (v6(0x3fff, 0, 0, 20), "an address for documentation"),
    (v6(0x2002, 0, 0, 16), "a 6to4 address"),
    (v6(0x3ffe, 0, 0, 16), "a reserved address"),
];

/// Well-known networks outside 2000::/3, each with the description that a denial contains.
const NAMED_V6: [(Ipv6Net, &str); 10] = [
    (v6(0, 0, 0, 128), "an address of this machine"),
    (v6(0x64, 0xff9b, 1, 48), "an address of local translation"),
    (v6(0, 0, 0, 8), "a reserved address"),
    (v6(0x100, 0, 0, 32), "a discard-only address"),
    (v6(0x5f00, 0, 0, 16), "an address of segment routing"),
    (v6(0xfc00, 0, 0, 7), "a private address"),
    (v6(0xfe80, 0, 0, 10), "a link-local address"),
    (v6(0xfec0, 0, 0, 10), "a site-local address"),
    (v6(0xff00, 0, 0, 8), "a multicast address"),
    (v6(0, 0, 0, 0), "an unallocated address"),
];

const LOOPBACK_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);
/// The range of global unicast addresses.
const GLOBAL: Ipv6Net = v6(0x2000, 0, 0, 3);
/// The well-known NAT64 prefix, whose addresses translate to IPv4.
const TRANSLATED: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

fn special_v4(address: Ipv4Addr) -> Result<(), DeniedAddress> {
    match SPECIAL_V4.iter().find(|(net, _)| net.contains(&address)) {
        Some((net, kind)) => Err(DeniedAddress { kind, net: IpNet::V4(*net) }),
        None => Ok(()),
    }
}

fn special_v6(address: Ipv6Addr) -> Result<(), DeniedAddress> {
    let denied = |net: Ipv6Net, kind| Err(DeniedAddress { kind, net: IpNet::V6(net) });
    if LOOPBACK_V6.contains(&address) {
        return denied(LOOPBACK_V6, "a loopback address");
    }
    let table = if GLOBAL.contains(&address) { &SPECIAL_V6[..] } else { &NAMED_V6[..] };
    if let Some((net, kind)) = table.iter().find(|(net, _)| net.contains(&address)) {
        return denied(*net, kind);
    }
    // An ISATAP address (a tunnel within a site) ends with its IPv4 address, under any prefix.
    if let [_, _, _, _, 0 | 0x200, 0x5efe, ..] = address.segments() {
        return special_v4(last_four(address));
    }
    Ok(())
}

/// Returns the IPv4 address to which NAT64 translates an address. `None` if the address is not in the NAT64 prefix.
fn stands_for(address: Ipv6Addr) -> Option<Ipv4Addr> {
    TRANSLATED.contains(&address).then(|| last_four(address))
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &AddressPolicy, address: &str) -> Result<(), DeniedAddress> {
        policy.check(address.parse().unwrap())
    }

    /// Checks the first and the last address of each special network, and the addresses just outside it.
    #[test]
    fn special_networks_end_where_they_end() {
        let policy = AddressPolicy::default();
        let table = [
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            ("10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
            ("100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
            ("127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
            ("168.63.129.16", "168.63.129.16", Some("168.63.129.15"), Some("168.63.129.17")),
            ("169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
            ("172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
            ("192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
            ("192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
            ("192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
            ("192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
            ("198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
            ("198.51.100.0", "198.51.100.255", Some("198.51.99.255"), Some("198.51.101.0")),
            ("203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
            ("224.0.0.0", "255.255.255.255", Some("223.255.255.255"), None),
            ("::", "1fff:ffff::", None, Some("2000::")),
            ("2001::", "2001:1ff:ffff:ffff::", Some("2000:ffff::"), Some("2001:200::")),
            ("2001:db8::", "2001:db8:ffff::", Some("2001:db7:ffff::"), Some("2001:db9::")),
            ("2002::", "2002:ffff::", Some("2001:ffff::"), Some("2003::")),
            ("3ffe::", "3fff:fff:ffff::", Some("3ffd:ffff::"), Some("3fff:1000::")),
            ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3fff:ffff::"), None),
        ];
        for (first, last, before, after) in table {
            for inside in [first, last] {
                assert!(check(&policy, inside).is_err(), "{inside}");
            }
            for outside in before.into_iter().chain(after) {
                assert_eq!(check(&policy, outside), Ok(()), "{outside}");
            }
        }
    }

    #[test]
    fn an_address_in_another_is_found() {
        let policy = AddressPolicy::default();
        let table = [
            ("::ffff:127.0.0.1", Some("a loopback address (127.0.0.0/8)")),
            ("::ffff:8.8.8.8", None),
            ("::127.0.0.1", Some("a reserved address (::/8)")),
            ("::8.8.8.8", Some("a reserved address (::/8)")),
            ("::ffff:0:127.0.0.1", Some("a reserved address (::/8)")),
            ("64:ff9b::127.0.0.1", Some("a loopback address (127.0.0.0/8)")),
            ("64:ff9b::a9fe:a9fe", Some("a cloud metadata address (169.254.169.254/32)")),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b:0:1::8.8.8.8", Some("a reserved address (::/8)")),
            ("64:ff9b:1::8.8.8.8", Some("an address of local translation (64:ff9b:1::/48)")),
            ("2002:7f00:1::", Some("a 6to4 address (2002::/16)")),
            ("2002:808:808::1", Some("a 6to4 address (2002::/16)")),
            ("2001:0:53aa:64c:0:7c07:80ff:fffe", Some("an address reserved for protocols (2001::/23)")),
            ("2a00::5efe:10.0.0.1", Some("a private address (10.0.0.0/8)")),
            ("2a00::200:5efe:192.168.0.1", Some("a private address (192.168.0.0/16)")),
            ("2a00::5efe:8.8.8.8", None),
            ("4000::1", Some("an unallocated address (::/0)")),
            ("::", Some("an address of this machine (::/128)")),
            ("::1", Some("a loopback address (::1/128)")),
            ("fe80::5efe:8.8.8.8", Some("a link-local address (fe80::/10)")),
            ("fd00:ec2::254", Some("a private address (fc00::/7)")),
        ];
        for (address, expected) in table {
            let found = check(&policy, address).err().map(|denied| denied.to_string());
            assert_eq!(found.as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn a_url_that_names_an_address_is_checked_and_one_with_a_name_is_not() {
        let policy = AddressPolicy::allowing(["127.0.0.0/8".parse().unwrap()])
            .denying(["8.8.8.0/24".parse().unwrap(), "2a00:64::/96".parse().unwrap()]);
        for (url, refused) in [
            ("http://127.1:9/in", None),
            ("https://hooks.example.com/in", None),
            ("https://localhost/in", None),
            ("https://1.1.1.1/in", None),
            ("http://0x0a000007/in", Some("10.0.0.7 is a private address (10.0.0.0/8)")),
            ("http://[::ffff:192.168.0.1]/in", Some("192.168.0.1 is a private address (192.168.0.0/16)")),
            ("http://[fe80::1]/in", Some("fe80::1 is a link-local address (fe80::/10)")),
            ("http://8.8.8.8/in", Some("8.8.8.8 is an address that the operator denies (egress.deny)")),
            ("http://[2a00:64::808:808]/in", Some("2a00:64::808:808 is an address that the operator denies")),
        ] {
            let found = policy.check_url(&url.parse().unwrap()).err().map(|denied| denied.to_string());
            assert_eq!(found.is_some(), refused.is_some(), "{url}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(refused.unwrap_or_default()), "{url}");
        }
    }

    #[test]
    fn what_is_allowed_is_allowed_in_each_form_and_what_is_denied_is_not() {
        let nets = |texts: &[&str]| texts.iter().map(|net| net.parse().unwrap()).collect::<Vec<IpNet>>();
        let policy = AddressPolicy::allowing(nets(&["127.0.0.0/8", "fd00::/16"]))
            .denying(nets(&["127.0.0.9/32", "8.8.8.0/24"]));
        for allowed in ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "fd00::1", "1.1.1.1"] {
            assert_eq!(check(&policy, allowed), Ok(()), "{allowed}");
        }
        for denied in
            ["::1", "10.0.0.1", "127.0.0.9", "::ffff:127.0.0.9", "64:ff9b::8.8.8.8", "8.8.8.8", "fd01::1"]
        {
            assert!(check(&policy, denied).is_err(), "{denied}");
        }
    }
}
