//! A small SMTP server on the loopback address, with and without TLS. It stores the mails that it receives, and
//! never relays them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The maximum length of a line in bytes, and also the maximum size of a mail.
const LONGEST: u64 = 1 << 20;

/// Whether and how connections are encrypted.
#[derive(Clone)]
pub enum Security {
    /// No encryption.
    Plain,
    /// Encryption after `STARTTLS`. Before that command, the server rejects mails.
    StartTls(Arc<ServerConfig>),
    /// Encryption from the first byte.
    Tls(Arc<ServerConfig>),
}

/// A mail that the server received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// The sender in the envelope.
    pub from: String,
    /// The recipients in the envelope.
    pub to: Vec<String>,
    /// The mail's headers and body.
    pub text: String,
    /// Whether the connection was encrypted.
    pub by_tls: bool,
    /// The credentials of `AUTH PLAIN`, in Base64. `None` if the client did not authenticate.
    pub credentials: Option<String>,
}

#[derive(Default)]
struct Inbox {
    mails: Vec<Mail>,
    /// The response with which the server rejects every mail. `None` if mails are accepted.
    refusal: Option<String>,
}

struct Shared {
    security: Security,
    inbox: Mutex<Inbox>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mail server. It stops when the value is dropped.
pub struct MailServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl MailServer {
    /// Starts the server on its own thread.
    ///
    /// # Errors
    /// Returns an error if no port or thread is available.
    pub fn start(security: Security) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { security, inbox: Mutex::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let serving = thread::Builder::new().name("mail-server".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, served) => {}
                }
            });
        })?;
        Ok(Self { address, shared, stop: Some(stop), serving: Some(serving) })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all mails that the server has received.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        self.shared.inbox().mails.clone()
    }

    /// From now on, rejects each mail with this response, such as `451 later`. `None` accepts mails again.
    pub fn refuse(&self, answer: Option<&str>) {
        self.shared.inbox().refusal = answer.map(str::to_owned);
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        // A client that disconnects is not a server error.
        tokio::spawn(async move {
            match shared.security.clone() {
                Security::Tls(config) => {
                    let stream = TlsAcceptor::from(config).accept(stream).await?;
                    step_member(stream, &shared, true, true).await.map(drop)
                }
                Security::Plain => step_member(stream, &shared, false, true).await.map(drop),
                Security::StartTls(config) => {
                    if let Some(stream) = step_member(stream, &shared, false, true).await? {
                        let stream = TlsAcceptor::from(config).accept(stream).await?;
                        step_member(stream, &shared, true, false).await?;
                    }
                    Ok(())
                }
            }
        });
    }
}

/// Serves an SMTP session until the client ends it or requests `STARTTLS`. In the latter case, returns the
/// stream, on which the TLS handshake follows.
async fn step_member<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    shared: &Shared,
    by_tls: bool,
    greets: bool,
) -> io::Result<Option<S>> {
    let mut stream = BufReader::new(stream);
    let offers_tls = !by_tls && matches!(shared.security, Security::StartTls(_));
    let mut mail = Mail { from: String::new(), to: vec![], text: String::new(), by_tls, credentials: None };
    if greets {
        say(&mut stream, "220 localhost").await?;
    }
    loop {
        let Some(line) = line(&mut stream).await? else { return Ok(None) };
        let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" if offers_tls => say(&mut stream, "250-localhost\r\n250 STARTTLS").await?,
            "EHLO" => say(&mut stream, "250-localhost\r\n250-8BITMIME\r\n250 AUTH PLAIN").await?,
            "HELO" | "RSET" | "NOOP" => say(&mut stream, "250 ok").await?,
            "STARTTLS" if offers_tls => {
                say(&mut stream, "220 go ahead").await?;
                return Ok(Some(stream.into_inner()));
            }
            "AUTH" => {
                mail.credentials = rest.split_once(' ').map(|(_, words)| words.to_owned());
                say(&mut stream, "235 welcome").await?;
            }
            "MAIL" | "RCPT" | "DATA" if offers_tls => {
                say(&mut stream, "530 must issue STARTTLS first").await?;
            }
            "MAIL" => {
                mail.from = between(rest);
                say(&mut stream, "250 ok").await?;
            }
            "RCPT" => {
                mail.to.push(between(rest));
                say(&mut stream, "250 ok").await?;
            }
            "DATA" => {
                say(&mut stream, "354 end with a dot").await?;
                let Some(text) = data(&mut stream).await? else { return Ok(None) };
                let answer = shared.inbox().take(Mail { text, ..mail.clone() });
                say(&mut stream, &answer).await?;
                mail.to.clear();
            }
            "QUIT" => {
                say(&mut stream, "221 bye").await?;
                return Ok(None);
            }
            _ => say(&mut stream, "502 never heard of it").await?,
        }
    }
}

impl Inbox {
    /// Stores or rejects a mail, and returns the response for the client.
    fn take(&mut self, mail: Mail) -> String {
        if let Some(refusal) = &self.refusal {
            return refusal.clone();
        }
        self.mails.push(mail);
        "250 kept".to_owned()
    }
}

/// Reads a mail up to the line that consists of a dot. Returns `None` if the connection ends before that
/// line.
async fn data<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Option<String>> {
    let mut text = String::new();
    loop {
        match line(stream).await? {
            None => return Ok(None),
            Some(line) if line == "." => return Ok(Some(text)),
            Some(line) => {
                // SMTP doubles a dot at the start of a line.
                text.push_str(line.strip_prefix('.').unwrap_or(&line));
                text.push('\n');
                if text.len() as u64 > LONGEST {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    }
}

async fn line<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if stream.take(LONGEST).read_until(b'\n', &mut bytes).await? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned()))
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>, words: &str) -> io::Result<()> {
    stream.write_all(format!("{words}\r\n").as_bytes()).await?;
    stream.flush().await
}

/// Returns the string between the first angle brackets, such as the address in `<a@example.com>`, or the
/// whole string if there are no brackets.
fn between(text: &str) -> String {
    let inner = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(text, |(inner, _)| inner).to_owned()
}
