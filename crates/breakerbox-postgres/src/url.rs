//! Parses URLs. The client library parses most of a URL; the TLS options are parsed here.
//!
//! `sslmode` means the same as in `psql`. `disable`: no TLS. `prefer` (the default) and `require`: TLS, but any
//! certificate is accepted. `verify-ca` and `verify-full`: TLS, and the certificate and the host name are
//! verified with `sslrootcert`, a file, or if it is not set with the system's certificates.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::error::{ConnectError, whole};

/// The certificates with which the server is verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// Any certificate is accepted. Traffic is encrypted, but the server is not authenticated.
    Anybody,
    /// The certificates that the system trusts.
    System,
    /// The certificates in this file.
    File(PathBuf),
}

/// Parses a URL into the client's configuration and the trusted certificates.
pub(crate) fn parse(url: &str) -> Result<(Config, Trust), ConnectError> {
    let wrong = |reason: String| ConnectError::Url { reason };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong(
            "must begin with postgres://, as in postgres://user:password@host/database".to_owned(),
        ));
    }
    let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
    let mut others = Vec::new();
    let (mut mode, mut file) = (None, None);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => {
                let path = percent_decode_str(value)
                    .decode_utf8()
                    .map_err(|error| wrong(format!("sslrootcert: {error}")))?;
                file = (path != "system").then(|| PathBuf::from(path.as_ref()));
            }
            _ => others.push(parameter),
        }
    }
    let (mode, trust) = match mode.unwrap_or("prefer") {
        "disable" => (SslMode::Disable, Trust::Anybody),
        "prefer" => (SslMode::Prefer, Trust::Anybody),
        "require" => (SslMode::Require, Trust::Anybody),
        "verify-ca" | "verify-full" => (SslMode::Require, file.map_or(Trust::System, Trust::File)),
        other => {
            let known = "disable, prefer, require, verify-ca or verify-full";
            return Err(wrong(format!("sslmode: must be {known}, but is {other}")));
        }
    };
    let mut config: Config =
        format!("{address}?{}", others.join("&")).parse().map_err(|error| wrong(whole(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("has no host; it looks like postgres://user:password@host/database".to_owned()));
    }
    if config.get_user().is_none() {
        return Err(wrong("has no user; it looks like postgres://user:password@host/database".to_owned()));
    }
    config.ssl_mode(mode);
    Ok((config, trust))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_what_psql_makes_of_it() {
        let file = Trust::File("/etc/ssl/my ca.pem".into());
        for (parameters, mode, trust) in [
            ("", SslMode::Prefer, Trust::Anybody),
            ("?sslmode=disable", SslMode::Disable, Trust::Anybody),
            ("?sslmode=require&application_name=a", SslMode::Require, Trust::Anybody),
            ("?sslmode=verify-full", SslMode::Require, Trust::System),
            ("?sslrootcert=system&sslmode=verify-full", SslMode::Require, Trust::System),
            ("?sslmode=verify-ca&sslrootcert=/etc/ssl/my%20ca.pem", SslMode::Require, file),
        ] {
            let (config, found) = parse(&format!("postgres://user:pw@host/db{parameters}")).unwrap();
            assert_eq!((config.get_ssl_mode(), found), (mode, trust), "{parameters}");
            assert_eq!(config.get_password(), Some(b"pw".as_slice()));
        }
    }

    #[test]
    fn a_url_that_makes_no_sense_says_why_and_keeps_its_secrets() {
        for (url, why) in [
            ("", "must begin with postgres://"),
            ("mysql://user:secret@host/db", "must begin with postgres://"),
            ("host=localhost password=secret", "must begin with postgres://"),
            ("postgres://", "has no host"),
            ("postgres://host/db", "has no user"),
            ("postgres://user:secret@host:port/db", "port"),
            ("postgres://user:secret@host/db?sslmode=perhaps", "sslmode: must be disable, prefer"),
            ("postgres://user:secret@host/db?no_such_thing=1", "no_such_thing"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.starts_with("url: ") && error.contains(why), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
