//! Parses URLs: which servers to connect to, and how.
//!
//! | URL | means |
//! | --- | --- |
//! | `redis://user:password@host:6379/0` | one server, and the number of a database on it |
//! | `redis+sentinel://user:password@host1:26379,host2:26379/0?master=mymaster` | the master that these sentinels name |
//! | `redis+cluster://user:password@host1:6379,host2:6379` | the cluster that these nodes belong to |
//!
//! `rediss` instead of `redis` means TLS. `sentinel_user=` and `sentinel_password=` are the login for the
//! sentinels; the user and the password before the `@` are the login for the servers. This module only parses;
//! it does not connect.

use std::collections::HashMap;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, TlsCertificates,
    parse_redis_url,
};

use crate::error::ConnectError;

/// The idle time after which the operating system starts to probe a TCP connection.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The servers to connect to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A single server.
    Server(Servers),
    /// The master that the sentinels name. `login` is for the master.
    Sentinel { sentinels: Servers, master: String, login: Login },
    /// A cluster, found through any of its nodes.
    Cluster(Servers),
}

/// The addresses of servers, with one login for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    pub(crate) addresses: Vec<(String, u16)>,
    pub(crate) login: Login,
}

/// The credentials and settings for connecting to a server.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) settings: RedisConnectionInfo,
    pub(crate) tls: bool,
    pub(crate) root_certificate: Option<Vec<u8>>,
}

impl Target {
    pub(crate) fn parse(url: &str, root_certificate: Option<Vec<u8>>) -> Result<Self, ConnectError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it must begin with redis://"))?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = matches!(base, "rediss" | "valkeys");
        if !tls && !matches!(base, "redis" | "valkey") {
            return Err(wrong(
                "it must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://",
            ));
        }
        if root_certificate.is_some() && !tls {
            return Err(ConnectError::Certificate { reason: "the URL asks for no TLS".to_owned() });
        }
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
        let default_port = if kind == "sentinel" { 26_379 } else { 6_379 };
        let mut found = Vec::new();
        let mut settings = RedisConnectionInfo::default();
        let mut query = HashMap::new();
        for host in hosts.split(',') {
            let one = format!("redis://{user}@{host}{tail}");
            let parsed = parse_redis_url(&one).ok_or_else(|| wrong("it can't be read as a URL"))?;
            query =
                parsed.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
            let has_port = parsed.port().is_some();
            let info = parsed.into_connection_info().map_err(|error| wrong(&error.to_string()))?;
            let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(wrong("it has no host")) };
            found.push((host.clone(), if has_port { *port } else { default_port }));
            settings = info.redis_settings().clone();
        }
        let login = |settings: RedisConnectionInfo| Login {
            settings: settings.set_protocol(ProtocolVersion::RESP3).set_lib_name("breakerbox", VERSION),
            tls,
            root_certificate: root_certificate.clone(),
        };
        let known: &[&str] =
            if kind == "sentinel" { &["master", "sentinel_user", "sentinel_password"] } else { &[] };
        if let Some(other) = query.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(wrong(&format!("it has {other}=, which means nothing here")));
        }
        match kind {
            "" if found.len() == 1 => Ok(Self::Server(Servers { addresses: found, login: login(settings) })),
            "" => Err(wrong("several hosts need redis+sentinel:// or redis+cluster://")),
            "cluster" if settings.db() == 0 => {
                Ok(Self::Cluster(Servers { addresses: found, login: login(settings) }))
            }
            "cluster" => Err(wrong("a cluster has database 0 only")),
            "sentinel" => {
                let master = query.remove("master").filter(|master| !master.is_empty());
                let master = master.ok_or_else(|| wrong("sentinels need ?master= and the master's name"))?;
                let mut asking = RedisConnectionInfo::default();
                if let Some(user) = query.get("sentinel_user") {
                    asking = asking.set_username(user);
                }
                if let Some(password) = query.get("sentinel_password") {
                    asking = asking.set_password(password);
                }
                let sentinels = Servers { addresses: found, login: login(asking) };
                Ok(Self::Sentinel { sentinels, master, login: login(settings) })
            }
            _ => Err(wrong("after the + comes sentinel or cluster")),
        }
    }

    /// Returns the servers' names for error messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Server(servers) | Self::Cluster(servers) => {
                let name = |(host, port): &(String, u16)| format!("{host}:{port}");
                servers.addresses.iter().map(name).collect::<Vec<_>>().join(",")
            }
            Self::Sentinel { master, .. } => master.clone(),
        }
    }
}

/// The client version that connections report to servers.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn wrong(reason: &str) -> ConnectError {
    ConnectError::Url { reason: reason.to_owned() }
}

impl Login {
    /// Creates a client for one address.
    pub(crate) fn client(&self, host: &str, port: u16) -> Result<Client, ConnectError> {
        let address = if self.tls {
            // If the program has already installed a cryptography provider, it is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
            ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host.to_owned(), port)
        };
        let bad = |error: redis::RedisError| ConnectError::Certificate { reason: error.to_string() };
        let info = address.into_connection_info().map_err(bad)?;
        let info = info.set_redis_settings(self.settings.clone()).set_tcp_settings(tcp_settings());
        match &self.root_certificate {
            Some(pem) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
                Client::build_with_tls(info, certificates).map_err(bad)
            }
            None => Client::open(info).map_err(bad),
        }
    }
}

/// Returns TCP settings that send small requests immediately and detect a dead peer.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<(&'static str, String, i64, bool), String> {
        let target = Target::parse(url, None).map_err(|error| error.to_string())?;
        let name = target.name();
        let (kind, login) = match target {
            Target::Server(servers) => ("server", servers.login),
            Target::Cluster(servers) => ("cluster", servers.login),
            Target::Sentinel { login, sentinels, .. } => {
                assert_eq!(
                    sentinels.login.settings.password(),
                    url.contains("sentinel_password").then_some("s")
                );
                ("sentinel", login)
            }
        };
        assert_eq!(login.settings.password(), url.contains(":pass").then_some("pass@"), "{url}");
        Ok((kind, name, login.settings.db(), login.tls))
    }

    #[test]
    fn urls_say_what_to_talk_to() {
        let table = [
            ("redis://127.0.0.1/", "server", "127.0.0.1:6379", 0, false),
            ("redis://:pass%40@redis.example:7000/3", "server", "redis.example:7000", 3, false),
            ("valkeys://user:pass%40@[::1]", "server", "::1:6379", 0, true),
            ("redis+cluster://a,b:7000", "cluster", "a:6379,b:7000", 0, false),
            ("rediss+cluster://user:pass%40@a/", "cluster", "a:6379", 0, true),
            (
                "redis+sentinel://:pass%40@a,b:27000/2?master=one&sentinel_password=s",
                "sentinel",
                "one",
                2,
                false,
            ),
        ];
        for (url, kind, name, db, tls) in table {
            assert_eq!(parsed(url), Ok((kind, name.to_owned(), db, tls)), "{url}");
        }
        let Ok(Target::Sentinel { sentinels, .. }) = Target::parse("redis+sentinel://a,b:1?master=m", None)
        else {
            panic!("it is one");
        };
        assert_eq!(sentinels.addresses, [("a".to_owned(), 26_379), ("b".to_owned(), 1)]);
    }

    #[test]
    fn a_wrong_url_says_how_it_should_be() {
        let table = [
            ("127.0.0.1:6379", "must begin with redis://"),
            ("http://127.0.0.1", "must begin with redis://"),
            ("redis://", "hostname"),
            ("redis://host:port", "can't be read"),
            ("redis://host/first", "database number"),
            ("redis://a,b", "redis+cluster://"),
            ("redis+cluster://a/1", "database 0 only"),
            ("redis+sentinel://a", "?master="),
            ("redis+cloud://a", "sentinel or cluster"),
            ("redis://host?timeout=1", "timeout="),
        ];
        for (url, expected) in table {
            let error = parsed(url).unwrap_err();
            assert!(error.starts_with("url: ") && error.contains(expected), "{url}: {error}");
        }
        let error = Target::parse("redis://a", Some(Vec::new())).unwrap_err();
        assert!(matches!(error, ConnectError::Certificate { .. }));
    }
}
