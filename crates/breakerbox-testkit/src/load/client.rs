//! A keep-alive HTTP connection that sends a request and reads the response. It uses little CPU time, because
//! benchmarks measure it too.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The number of bytes to read at once.
const CHUNK: usize = 8 << 10;

/// The maximum number of headers in a response.
const MOST_HEADERS: usize = 64;

/// The maximum size of a response, in bytes.
const LARGEST: usize = 64 << 20;

/// A keep-alive HTTP connection that sends a request and reads the response.
#[derive(Debug)]
pub struct Client {
    target: SocketAddr,
    stream: Option<TcpStream>,
    buffer: BytesMut,
    limit: Duration,
}

/// A response. Its body is in the client's buffer until the next call.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The response's HTTP status.
    pub status: u16,
    body: Range<usize>,
    closes: bool,
}

impl Client {
    /// Returns a client for this server. `limit` is the timeout for each call.
    #[must_use]
    pub fn new(target: SocketAddr, limit: Duration) -> Self {
        Self { target, stream: None, buffer: BytesMut::with_capacity(CHUNK), limit }
    }

    /// Sends a request and waits for the response. After an error, the next call opens a new connection.
    ///
    /// # Errors
    /// Returns an error if no response arrives in time, or the response can't be parsed.
    pub async fn call(&mut self, request: &[u8]) -> io::Result<Answered> {
        let answered = timeout(self.limit, self.exchange(request)).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {:?}", self.limit)))
        });
        if answered.as_ref().map_or(true, |answered| answered.closes) {
            self.stream = None;
        }
        answered
    }

    /// Returns the body of the latest response.
    #[must_use]
    pub fn body(&self, answered: &Answered) -> &[u8] {
        &self.buffer[answered.body.clone()]
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Answered> {
        self.buffer.clear();
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.target).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(request).await?;
        loop {
            self.buffer.reserve(CHUNK);
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(answered) = parse(&mut self.buffer)? {
                return Ok(answered);
            }
            if self.buffer.len() > LARGEST {
                return Err(wrong("it is too large"));
            }
        }
    }
}

/// Parses the response in the buffer. Returns `None` if the response is not complete yet.
fn parse(buffer: &mut BytesMut) -> io::Result<Option<Answered>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(buffer).map_err(wrong)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Ok(None),
        };
        let status = response.code.unwrap_or(0);
        if status < 200 {
            // This is an informational response (1xx); the final one follows.
            buffer.advance(length);
            continue;
        }
        let (mut body, mut closes) = (0_usize, false);
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let text = str::from_utf8(header.value).map_err(wrong)?;
                body = text.parse().map_err(wrong)?;
            } else if header.name.eq_ignore_ascii_case("connection") {
                closes = header.value.eq_ignore_ascii_case(b"close");
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(wrong("it has no length"));
            }
        }
        let end = length + body;
        return Ok((buffer.len() >= end).then_some(Answered { status, body: length..end, closes }));
    }
}

fn wrong(reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer can't be read: {reason}"))
}
