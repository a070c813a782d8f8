//! No connection to a denied address: by literals in every notation, by names, by names that change, by redirects,
//! through a proxy. A listener on loopback counts connections, and the sender counts the addresses that it dialed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use breakerbox_egress::{Incoming, Proxy, SendSettings, Sender};
use breakerbox_model::delivery::{Fault, Reply, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::sending::{Scripted, is_answered, settings, to};

fn is_denied(incoming: &Incoming) -> bool {
    incoming.reply == Reply::Failed(Fault::Denied)
}

/// Responds to each connection with the same bytes, and counts connections.
struct Listener {
    address: SocketAddr,
    arrived: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Listener {
    async fn answering(answer: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (arrived, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, log) = (Arc::clone(&arrived), Arc::clone(&heard));
        let task = tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = vec![0; 4_096];
                let length = tcp.read(&mut request).await.unwrap_or(0);
                log.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
                let _ = tcp.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, arrived, heard, task }
    }

    fn arrived(&self) -> usize {
        self.arrived.load(Ordering::SeqCst)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const OK: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

/// Every notation of 127.0.0.1 in a URL. The test replaces `{}` with the port.
const LOOPBACK: &[&str] = &[
    "http://127.0.0.1:{}/",
    "http://127.1:{}/",
    "http://127.0.1:{}/",
    "http://127.0.0.1.:{}/",
    "http://127.1.:{}/",
    "http://2130706433:{}/",
    "http://2130706433.:{}/",
    "http://017700000001:{}/",
    "http://0177.0.0.1:{}/",
    "http://0177.0.0.01:{}/",
    "http://0177.0000.0000.0001:{}/",
    "http://00000000177.0.0.1:{}/",
    "http://0x7f000001:{}/",
    "http://0X7F000001:{}/",
    "http://0x7F.0x0.0x0.0x1:{}/",
    "http://0x7f.1:{}/",
    "http://0x7f.0.1:{}/",
    "http://0x7f.0.0.0x1:{}/",
    "http://0x0000007f.1:{}/",
    "http://0177.1:{}/",
    "http://127.0x1:{}/",
    "http://127.01:{}/",
    "http://127.0.0x1:{}/",
    "http://127.0.0.0x1:{}/",
    "http://127.0x0.00.1:{}/",
    "http://0x7f.0000000000000000000001:{}/",
    "http://127.0x.0x.1:{}/",
    "http://%31%32%37%2e%30%2e%30%2e%31:{}/",
    "http://127%2E0%2e0.1:{}/",
    "http://%30x7f.1:{}/",
    "http://127。0。0。1:{}/",
    "http://127．0．0．1:{}/",
    "http://127｡0｡0｡1:{}/",
    "http://１２７.0.0.1:{}/",
    "http://①②⑦.0.0.1:{}/",
    "http://１２７．０．０．１:{}/",
    "http://０ｘ７ｆ.1:{}/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:{}/",
    "http://²¹³⁰⁷⁰⁶⁴³³:{}/",
    "http://127.0.0.1%E3%80%82:{}/",
    "http://12\u{ad}7.0.0.1:{}/",
    "http://127.0\u{200b}.0.1:{}/",
    "HTTP://127.0.0.1:{}/",
    "http:\\\\127.0.0.1:{}\\",
    "http:/127.0.0.1:{}/",
    "http:127.0.0.1:{}/",
    "http:////127.0.0.1:{}/",
    " http://127.0.0.1:{}/ ",
    "ht\ntp://127.\t0.0.1:{}/",
    "http://127.0.0.1:{}/#@example.com",
    "http://127.0.0.1:{}?@example.com/",
    "http://127.0.0.1:{}\\@example.com/",
    "http://127.0.0.1:0000{}/",
    "http://[::ffff:127.0.0.1]:{}/",
    "http://[::FFFF:7f00:1]:{}/",
    "http://[::ffff:7f00:0001]:{}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{}/",
    "http://[0000:0000:0000:0000:0000:ffff:7f00:0001]:{}/",
];

/// URLs with other addresses of this machine, or with addresses in networks that are not public.
const ELSEWHERE: &[&str] = &[
    // This machine.
    "http://0/",
    "http://0.0.0.0/",
    "http://0x0/",
    "http://00/",
    "http://0.1/",
    "http://0.255.255.255/",
    "http://127.0.0.2/",
    "http://127.255.255.254/",
    "http://127.127/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "https://[::1]:8443/",
    "http://[::0.0.0.1]/",
    // Private networks.
    "http://10.0.0.1/",
    "http://10.1/",
    "http://10.255.255.255/",
    "http://012.0.0.1/",
    "http://0xa.0.0.1/",
    "http://0xa000001/",
    "http://167772161/",
    "http://172.16.0.1/",
    "http://172.31.255.254/",
    "http://172.1048577/",
    "http://0254.020.0.1/",
    "http://0xac.0x10.0.1/",
    "http://2886729729/",
    "http://192.168.0.1/",
    "http://192.168.257/",
    "http://192.168.1.1./",
    "http://0300.0250.0.1/",
    "http://0xc0a80001/",
    "http://3232235521/",
    "http://[fc00::1]/",
    "http://[fd00::1]/",
    "http://[fd12:3456:789a::1]/",
    "http://[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]/",
    // Cloud metadata services, and link-local addresses.
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.43518/",
    "http://169.16689662/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0251.0376.0251.0376/",
    "http://025177524776/",
    "http://169.254.169.254./",
    "http://169%2e254%2e169%2e254/",
    "http://169。254。169。254/",
    "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/",
    "http://169.254.0.1/",
    "http://169.254.169.123/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[fe80::1]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://[febf:ffff::1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    // Provider networks (carrier-grade NAT).
    "http://100.64.0.1/",
    "http://100.127.255.254/",
    "http://1681915905/",
    // Protocols, documentation, benchmarks, multicast, reserved.
    "http://192.0.0.1/",
    "http://192.0.0.8/",
    "http://192.0.0.170/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://198.18.0.1/",
    "http://198.19.255.254/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://240.0.0.1/",
    "http://254.254.254.254/",
    "http://255.255.255.255/",
    "http://4294967295/",
    "http://0xffffffff/",
    "http://[100::1]/",
    "http://[100:0:0:1::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[3fff:fff:ffff::1]/",
    "http://[2001:2::1]/",
    "http://[2001:10::1]/",
    "http://[2001:20::1]/",
    "http://[2001:30::1]/",
    "http://[2001:1::1]/",
    "http://[2001:3::1]/",
    "http://[2001:4:112::1]/",
    "http://[3ffe::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://[8000::1]/",
    "http://[e000::1]/",
    "http://[fec0::1]/",
    "http://[feff::1]/",
    "http://[ff02::1]/",
    "http://[ff05::1:3]/",
    "http://[ff0e::1]/",
    // IPv4 addresses in IPv6 addresses.
    "http://[::127.0.0.1]/",
    "http://[::7f00:1]/",
    "http://[::10.0.0.1]/",
    "http://[::169.254.169.254]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[::ffff:0:7f00:1]/",
    "http://[::ffff:0.0.0.0]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:192.168.0.1]/",
    "http://[::ffff:100.64.0.1]/",
    "http://[::ffff:255.255.255.255]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b::c0a8:1]/",
    "http://[64:ff9b::0.0.0.0]/",
    "http://[64:ff9b:1::127.0.0.1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[64:ff9b:1:ffff::1]/",
    "http://[64:ff9b:0:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:7f00:0001::1]/",
    "http://[2002:a00:1::1]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[2002:c0a8:101::1]/",
    "http://[2002:808:808::1]/",
    "http://[2001::1]/",
    "http://[2001:0:7f00:1::80ff:fffe]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:0:0:0:0:0:80ff:fffe]/",
    "http://[2a00:1450::5efe:127.0.0.1]/",
    "http://[2a00:1450::5efe:10.0.0.1]/",
    "http://[2a00:1450::200:5efe:169.254.169.254]/",
    "http://[fe80::5efe:192.168.0.1]/",
    "http://[fe80::200:5efe:10.0.0.1]/",
];

/// Strings that try to bypass the policy, but are not valid URLs.
const REFUSED: &[&str] = &[
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[::1%251]/",
    "http://[::1/",
    "http://[%3A%3Affff%3A127.0.0.1]/",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://[::127.0.0.01]/",
    "http://[::ffff:127.1]/",
    "http://[::ffff:0x7f.0.0.1]/",
    "http://[v1.127.0.0.1]/",
    "http://127.0.0.256/",
    "http://256.0.0.1/",
    "http://127.0.0.1.1/",
    "http://1.2.3.4.5/",
    "http://4294967296/",
    "http://0x100000000/",
    "http://0x7f.0x1000000/",
    "http://127.0.0.08/",
    "http://127..1/",
    "http://127.0.0.1%00/",
    "http://127.0.0.1%20/",
    "http://127.0.0.1%2f@example.com/",
    "http://example.com%2f@127.0.0.1/",
    "http://example.com@127.0.0.1/",
    "http://a:b@127.0.0.1/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:8o/",
    "http:///",
    "http://#127.0.0.1/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:6379/info",
    "unix:/var/run/docker.sock",
    "ws://127.0.0.1/",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "//127.0.0.1/",
    "127.0.0.1:80",
    "localhost:80",
];

#[tokio::test]
async fn literals_in_every_notation_are_denied() {
    assert!(LOOPBACK.len() + ELSEWHERE.len() + REFUSED.len() >= 200);
    let listener = Listener::answering(OK).await;
    let port = listener.address.port().to_string();
    let careful = Sender::with_resolver(&settings(&[]), Scripted::new(&[&["127.0.0.1"]])).unwrap();
    for url in LOOPBACK.iter().chain(ELSEWHERE) {
        let incoming = careful.send(to(&url.replace("{}", &port))).await;
        assert!(is_denied(&incoming), "{url}: {incoming:?}");
        assert!(
            incoming.detail.as_ref().is_some_and(|detail| detail.starts_with("the address is ")),
            "{url}: {incoming:?}"
        );
    }
    let taken: Vec<_> = REFUSED.iter().filter(|url| url.parse::<Target>().is_ok()).collect();
    assert!(taken.is_empty(), "{taken:?}");
    assert_eq!((listener.arrived(), careful.dialed(), careful.open_connections()), (0, 0, 0));

    // The same URLs do reach the listener if the operator allows it, so the test can fail.
    let allowed = Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&[]])).unwrap();
    for url in LOOPBACK {
        let incoming = allowed.send(to(&url.replace("{}", &port))).await;
        assert!(is_answered(&incoming, 204), "{url}: {incoming:?}");
    }
    assert_eq!(listener.arrived(), LOOPBACK.len());
}

#[tokio::test]
async fn names_that_lead_to_denied_addresses_are_denied() {
    let listener = Listener::answering(OK).await;
    let url = format!("http://hooks.example:{}/", listener.address.port());
    let table: [&[&str]; 7] = [
        &["127.0.0.1"],
        &["::1"],
        &["10.0.0.7", "192.168.0.1", "fd00::1"],
        &["::ffff:127.0.0.1"],
        &["64:ff9b::7f00:1"],
        &["169.254.169.254"],
        &["0.0.0.0"],
    ];
    for addresses in table {
        let sender = Sender::with_resolver(&settings(&[]), Scripted::new(&[addresses])).unwrap();
        let incoming = sender.send(to(&url)).await;
        assert!(is_denied(&incoming), "{addresses:?}: {incoming:?}");
        let detail = incoming.detail.unwrap();
        assert!(detail.starts_with("the name resolves to"), "{detail}");
        assert!(!addresses.iter().any(|address| detail.contains(address)), "it tells no addresses: {detail}");
        assert_eq!(sender.dialed(), 0, "{addresses:?}");
    }
    // With the system's resolver, too.
    let sender = Sender::new(&settings(&[])).unwrap();
    for name in ["localhost", "LOCALHOST", "localhost.", "127.0.0.0x1g"] {
        let incoming = sender.send(to(&format!("http://{name}:{}/", listener.address.port()))).await;
        // Not every system resolves the name with a dot, and the last one is a name that only looks like an address.
        let not_found = !name.ends_with(['t', 'T']) && incoming.reply == Reply::Failed(Fault::Dns);
        assert!(is_denied(&incoming) || not_found, "{name}: {incoming:?}");
    }
    assert_eq!((listener.arrived(), sender.dialed()), (0, 0));
    let allowed = Sender::new(&settings(&["127.0.0.0/8"])).unwrap();
    let incoming = allowed.send(to(&format!("http://localhost:{}/", listener.address.port()))).await;
    assert!(is_answered(&incoming, 204), "{incoming:?}");
}

#[tokio::test]
async fn of_several_addresses_only_those_that_pass_are_called() {
    let listener = Listener::answering(OK).await;
    let url = format!("http://hooks.example:{}/", listener.address.port());
    let resolver = Scripted::new(&[&["10.0.0.7", "::1", "127.0.0.1", "192.168.0.1"]]);
    let sender = Sender::with_resolver(&settings(&["127.0.0.1/32"]), resolver).unwrap();
    assert!(is_answered(&sender.send(to(&url)).await, 204));
    assert_eq!((listener.arrived(), sender.dialed()), (1, 1));
}

#[tokio::test]
async fn an_address_that_refuses_is_followed_by_the_next() {
    let listener = Listener::answering(OK).await;
    let url = format!("http://hooks.example:{}/", listener.address.port());
    // Nothing listens at the first two: the listener is only on 127.0.0.1.
    let resolver = Scripted::new(&[&["127.0.0.2", "127.0.0.3", "127.0.0.1"]]);
    let sender = Sender::with_resolver(&settings(&["127.0.0.0/8"]), resolver).unwrap();
    assert!(is_answered(&sender.send(to(&url)).await, 204));
    assert_eq!((listener.arrived(), sender.dialed()), (1, 3));
}

#[tokio::test]
async fn a_name_that_changes_between_check_and_connection_gains_nothing() {
    let listener = Listener::answering(OK).await;
    let url = format!("http://rebind.example:{}/", listener.address.port());
    // The first address is allowed, and nothing listens there. A second look-up before connecting would lead to the
    // listener.
    let resolver = Scripted::new(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let sender = Sender::with_resolver(&settings(&["127.0.0.2/32"]), Arc::clone(&resolver) as _).unwrap();
    let first = sender.send(to(&url)).await;
    assert_eq!(first.reply, Reply::Failed(Fault::Connect), "{first:?}");
    assert_eq!(resolver.left(), 1, "it was asked once");
    // A later request is checked again, here by another sender with an empty cache.
    let sender = Sender::with_resolver(&settings(&["127.0.0.2/32"]), resolver).unwrap();
    let second = sender.send(to(&url)).await;
    assert!(is_denied(&second), "{second:?}");
    assert_eq!((listener.arrived(), sender.dialed()), (0, 0));
}

#[tokio::test]
async fn redirects_are_answers_like_any_other() {
    let secret = Listener::answering(OK).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nlocation: http://{}/\r\nrefresh: 0; url=http://{}/\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n",
            secret.address, secret.address
        );
        let receiver = Listener::answering(answer.leak()).await;
        let sender = Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&[]])).unwrap();
        let incoming = sender.send(to(&format!("http://{}/", receiver.address))).await;
        assert!(is_answered(&incoming, status), "{incoming:?}");
        assert_eq!((receiver.arrived(), secret.arrived(), sender.dialed()), (1, 0, 1));
    }
}

#[tokio::test]
async fn through_a_proxy_nothing_else_is_called_and_literals_are_checked() {
    let proxy = Listener::answering("HTTP/1.1 403 Forbidden\r\n\r\n").await;
    let secret = Listener::answering(OK).await;
    let through = SendSettings {
        proxy: Some(format!("http://me:secret@{}", proxy.address).parse::<Proxy>().unwrap()),
        ..settings(&[])
    };
    let sender = Sender::with_resolver(&through, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let port = secret.address.port().to_string();
    for url in LOOPBACK.iter().chain(ELSEWHERE) {
        let incoming = sender.send(to(&url.replace("{}", &port))).await;
        assert!(is_denied(&incoming), "{url}: {incoming:?}");
    }
    assert_eq!((proxy.arrived(), sender.dialed()), (0, 0));
    // The proxy resolves names, and refuses them.
    let incoming = sender.send(to(&format!("http://internal.example:{port}/"))).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Connect), "{incoming:?}");
    assert!(incoming.detail.unwrap().starts_with("the proxy did not connect"));
    assert_eq!((proxy.arrived(), secret.arrived(), sender.dialed()), (1, 0, 1));
    let heard = proxy.heard.lock().unwrap().join("");
    let asked = format!("CONNECT internal.example:{port} HTTP/1.1\r\n");
    assert!(heard.starts_with(&asked) && heard.contains("Basic bWU6c2VjcmV0"), "{heard}");
}
