//! E-mail over SMTP. The operator configures the server, like a proxy, so the address policy does not apply to it.
//!
//! | URL scheme | transport |
//! | --- | --- |
//! | `smtp://` | STARTTLS, which the server must offer; port 587 |
//! | `smtps://` | TLS from the first byte; port 465 |
//! | `smtp+plain://` | without TLS, for a server on this machine; port 25 |

use std::path::{Path, PathBuf};
use std::time::Duration;

use breakerbox_model::notifications::Message;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use percent_encoding::percent_decode_str;
use url::Url;

/// A mail server that sends messages.
#[derive(Clone, PartialEq, Debug)]
pub struct MailServer {
    /// Scheme, host, port and user; see [`check_mail_url`].
    pub url: Url,
    /// The password for the user in the URL. `None` means no authentication.
    pub password: Option<String>,
    /// The sender address of messages.
    pub from: Mailbox,
    /// PEM files with certificate authorities to trust in addition to the system's.
    pub ca_files: Vec<PathBuf>,
}

/// The reason why mail can't be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// The URL is invalid. The string states why.
    #[error("notify.smtp_url: {0}")]
    Url(&'static str),
    /// A certificate file can't be read.
    #[error("egress.ca_files: {} can't be read: {error}", path.display())]
    File {
        /// The certificate file.
        path: PathBuf,
        /// The file system's error.
        error: std::io::Error,
    },
    /// TLS can't be configured. The string states why.
    #[error("notify.smtp_url: TLS: {0}")]
    Tls(String),
}

/// Checks whether a URL is valid for a mail server.
///
/// # Errors
/// Returns what is wrong with the URL.
pub fn check_mail_url(url: &Url) -> Result<(), &'static str> {
    if way(url).is_none() {
        return Err("must begin with smtp://, smtps:// or smtp+plain://");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("has no host");
    }
    if url.password().is_some() {
        return Err("must not contain a password; set BREAKERBOX_NOTIFY_SMTP_PASSWORD");
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err("must consist of a scheme, a host and optionally a user and a port");
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Security {
    StartTls,
    Tls,
    Plain,
}

/// Returns the transport security and the default port for the URL's scheme. `None` if the scheme is not supported.
fn way(url: &Url) -> Option<(Security, u16)> {
    match url.scheme() {
        "smtp" => Some((Security::StartTls, 587)),
        "smtps" => Some((Security::Tls, 465)),
        "smtp+plain" => Some((Security::Plain, 25)),
        _ => None,
    }
}

/// Sends e-mails, each over a new connection, since there are few.
#[derive(Clone)]
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Creates a mailer for this server, reading the certificate files. `limit` is the timeout for one mail.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, or certificates can't be read.
    pub fn new(server: &MailServer, limit: Duration) -> Result<Self, MailError> {
        check_mail_url(&server.url).map_err(MailError::Url)?;
        let (security, port) = way(&server.url).ok_or(MailError::Url("has an unknown scheme"))?;
        // An IPv6 literal has brackets only in a URL.
        let host = server.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tls = match security {
            Security::Plain => Tls::None,
            Security::StartTls => Tls::Required(parameters(&host, &server.ca_files)?),
            Security::Tls => Tls::Wrapper(parameters(&host, &server.ca_files)?),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(server.url.port().unwrap_or(port))
            .tls(tls)
            .timeout(Some(limit));
        if !server.url.username().is_empty() {
            let user = percent_decode_str(server.url.username()).decode_utf8_lossy().into_owned();
            builder =
                builder.credentials(Credentials::new(user, server.password.clone().unwrap_or_default()));
        }
        Ok(Self { transport: builder.build(), from: server.from.clone() })
    }

    /// Sends a mail. Returns a short form of the server's response.
    ///
    /// # Errors
    /// Returns a short form of the server's response or the error, if the server did not accept the mail.
    pub async fn send(&self, to: &[Address], message: &Message) -> Result<String, String> {
        let mail = self.mail(to, message)?;
        match self.transport.send(mail).await {
            Ok(answer) => Ok(format!("{}", answer.code())),
            Err(error) => Err(reason(&error)),
        }
    }

    fn mail(&self, to: &[Address], message: &Message) -> Result<lettre::Message, String> {
        let recipients: Mailboxes = to.iter().map(|to| Mailbox::new(None, to.clone())).collect();
        lettre::Message::builder()
            .from(self.from.clone())
            .mailbox(lettre::message::header::To::from(recipients))
            .subject(message.text.title.as_str())
            .message_id(Some(format!("<{}@{}>", message.id, self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN)
            .body(format!("{}\n\n{}\n", message.text.body, message.id))
            .map_err(|error| error.to_string())
    }
}

fn parameters(host: &str, ca_files: &[PathBuf]) -> Result<TlsParameters, MailError> {
    let wrong = |error: lettre::transport::smtp::Error| MailError::Tls(error.to_string());
    let mut builder = TlsParameters::builder(host.to_owned());
    for path in ca_files {
        builder = builder.add_root_certificate(certificates(path)?);
    }
    builder.build_rustls().map_err(wrong)
}

fn certificates(path: &Path) -> Result<Certificate, MailError> {
    let pem = std::fs::read(path).map_err(|error| MailError::File { path: path.to_owned(), error })?;
    Certificate::from_pem(&pem).map_err(|error| MailError::Tls(error.to_string()))
}

/// Formats an error with its sources, shortened.
fn reason(error: &lettre::transport::smtp::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_urls_name_a_mail_server() {
        for url in
            ["smtp://mail.example.com", "smtps://user@mail.example.com:465", "smtp+plain://127.0.0.1:1025"]
        {
            assert_eq!(check_mail_url(&url.parse().unwrap()), Ok(()), "{url}");
        }
        for (url, why) in [
            ("http://mail.example.com", "must begin with"),
            ("smtp://", "has no host"),
            ("smtp://user:secret@mail.example.com", "must not contain a password"),
            ("smtp://mail.example.com/inbox", "must consist of a scheme, a host"),
            ("smtp://mail.example.com?tls=none", "must consist of a scheme, a host"),
        ] {
            let said = check_mail_url(&url.parse().unwrap()).unwrap_err();
            assert!(said.starts_with(why), "{url}: {said}");
            assert!(!said.contains("secret@"));
        }
    }

    #[test]
    fn no_mail_can_be_made_to_say_more_than_one_mail() {
        use breakerbox_model::notifications::Text;
        let server = MailServer {
            url: "smtp+plain://127.0.0.1:1".parse().unwrap(),
            password: None,
            from: "Breakerbox <box@example.com>".parse().unwrap(),
            ca_files: vec![],
        };
        let mailer = Mailer::new(&server, Duration::from_secs(1)).unwrap();
        let text = Text { title: "a\r\nBcc: evil@example.com".into(), body: "b\r\n.\r\nQUIT".into() };
        let message = Message { id: "ntf_1".into(), text, json: serde_json::Value::Null };
        let mail = mailer.mail(&["ops@example.com".parse().unwrap()], &message).unwrap();
        let text = String::from_utf8(mail.formatted()).unwrap();
        assert!(!text.lines().any(|line| line.to_lowercase().starts_with("bcc:")), "{text}");
        assert_eq!(mail.envelope().to().len(), 1);
    }
}
