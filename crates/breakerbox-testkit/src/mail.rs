//! A small mail server on loopback: it speaks as much SMTP as a client needs, with and without TLS, and keeps the mails that
//! it got. It relays nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The longest line, and the longest mail.
const LONGEST: u64 = 1 << 20;

/// How a client's words are kept from others.
#[derive(Clone)]
pub enum Security {
    /// Not at all.
    Plain,
    /// From `STARTTLS` on. Mails that come before are refused.
    StartTls(Arc<ServerConfig>),
    /// From the first byte on.
    Tls(Arc<ServerConfig>),
}

/// A mail as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Who it is from, by the envelope.
    pub from: String,
    /// To whom it goes, by the envelope.
    pub to: Vec<String>,
    /// Its headers and its body.
    pub text: String,
    /// Whether TLS was spoken.
    pub by_tls: bool,
    /// What `AUTH PLAIN` said, in base 64; none if nobody said who they are.
    pub credentials: Option<String>,
}

#[derive(Default)]
struct Kept {
    mails: Vec<Mail>,
    /// Every mail is answered so, and not kept.
    refusal: Option<String>,
}

struct Shared {
    security: Security,
    kept: Mutex<Kept>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mail server, stopped when this is dropped.
pub struct MailServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl MailServer {
    /// Starts it, on a thread of its own.
    ///
    /// # Errors
    /// If there is no port or no thread for it.
    pub fn start(security: Security) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { security, kept: Mutex::default() });
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

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The mails that it got.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        self.shared.kept().mails.clone()
    }

    /// From now on each mail is answered so, such as `451 later`; none: each is taken.
    pub fn refuse(&self, answer: Option<&str>) {
        self.shared.kept().refusal = answer.map(str::to_owned);
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
        // A client that goes away is no trouble of ours.
        tokio::spawn(async move {
            match shared.security.clone() {
                Security::Tls(config) => {
                    let stream = TlsAcceptor::from(config).accept(stream).await?;
                    converse(stream, &shared, true, true).await.map(drop)
                }
                Security::Plain => converse(stream, &shared, false, true).await.map(drop),
                Security::StartTls(config) => {
                    if let Some(stream) = converse(stream, &shared, false, true).await? {
                        let stream = TlsAcceptor::from(config).accept(stream).await?;
                        converse(stream, &shared, true, false).await?;
                    }
                    Ok(())
                }
            }
        });
    }
}

/// One conversation, to its end. Answers the stream if the client wants TLS on it.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
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
                let answer = shared.kept().take(Mail { text, ..mail.clone() });
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

impl Kept {
    /// Keeps a mail, unless it refuses; and says which.
    fn take(&mut self, mail: Mail) -> String {
        if let Some(refusal) = &self.refusal {
            return refusal.clone();
        }
        self.mails.push(mail);
        "250 kept".to_owned()
    }
}

/// A mail up to the dot.
async fn data<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Option<String>> {
    let mut text = String::new();
    loop {
        match line(stream).await? {
            None => return Ok(None),
            Some(line) if line == "." => return Ok(Some(text)),
            Some(line) => {
                // A line that begins with a dot has one more.
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

/// What is between the angle brackets.
fn between(text: &str) -> String {
    let inner = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(text, |(inner, _)| inner).to_owned()
}
