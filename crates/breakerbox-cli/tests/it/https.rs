//! Commands over HTTPS, with trusted and untrusted certificate authorities.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::api_commands::answering;
use crate::program::Program;

/// Responds once to each of this many connections, over TLS. The server ends after the last connection.
fn answers(connections: usize) -> (SocketAddr, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections).flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            let mut asked = vec![];
            let mut piece = [0; 1024];
            // A client that does not trust the server sends a TLS alert instead of a request.
            while !asked.ends_with(b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(length) if length > 0 => asked.extend_from_slice(&piece[..length]),
                    _ => break,
                }
            }
            let body = "{\"id\": \"acme\"}";
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
        }
    });
    (address, cert.pem())
}

#[test]
fn a_gateway_behind_https_is_asked_if_it_is_trusted() {
    let (address, authority) = answers(2);
    let url = format!("https://{address}");
    let trusting = Program::new(&["tenants", "show", "acme", "--url", &url]).file("own.pem", &authority);
    let ended = trusting.env("SSL_CERT_FILE", "own.pem").env("SSL_CERT_DIR", "").run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "id  acme\n"), "{}", ended.stderr);

    let (_, another) = answers(0);
    let wary = Program::new(&["tenants", "show", "acme", "--url", &url]).file("other.pem", &another);
    let ended = wary.env("SSL_CERT_FILE", "other.pem").env("SSL_CERT_DIR", "").run();
    assert_eq!(ended.code, 3, "{}", ended.stdout);
    assert!(ended.stderr.contains("TLS handshake failed"), "{}", ended.stderr);

    let alone = Program::new(&["tenants", "show", "acme", "--url", &url]).file("none.pem", "");
    let ended = alone.env("SSL_CERT_FILE", "none.pem").env("SSL_CERT_DIR", "").run();
    assert_eq!(ended.code, 3, "{}", ended.stdout);
    assert!(ended.stderr.contains("no certificate authorities"), "{}", ended.stderr);
}

#[test]
fn a_url_with_the_wrong_scheme_is_told_the_right_one() {
    let plain = answering(serde_json::json!({"id": "acme"}));
    let url = plain.url().replace("http://", "https://");
    let (secure, authority) = answers(1);
    for (url, expected) in
        [(url, "use http:// instead"), (format!("http://{secure}"), "use https:// instead")]
    {
        let program = Program::new(&["tenants", "show", "acme", "--url", &url]).file("own.pem", &authority);
        let ended = program.env("SSL_CERT_FILE", "own.pem").env("SSL_CERT_DIR", "").run();
        assert_eq!(ended.code, 3, "{}", ended.stdout);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}
