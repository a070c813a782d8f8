//! One connection: it serves requests one after the other, each according to its endpoint's configuration.
//!
//! Uses only hyper's parser, not its server: benchmarks include every microsecond that is spent here, and a
//! hostile endpoint has to send responses that no server library would send.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::behaviour::{Answer, Behaviour};
use super::endpoint::InFlight;
use super::head::{Head, LARGEST_BODY, Parsed, Received};
use super::visits::Visit;
use super::{Shared, hostile};
use crate::stamp;

/// The number of bytes to read at once.
const CHUNK: usize = 8 << 10;

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: BytesMut,
    shared: Arc<Shared>,
}

/// What happens to the connection after a request.
pub(super) enum AfterRequest {
    Next,
    End,
}

/// How the wait before a response ended.
enum Waited {
    Over,
    Gone,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, shared: Arc<Shared>) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(CHUNK), shared }
    }

    /// Responds to requests until the caller disconnects.
    pub(super) async fn serve(mut self) -> io::Result<()> {
        while let Some(head) = self.request().await? {
            if let AfterRequest::End = self.answer(&head).await? {
                break;
            }
            self.buffer.advance(head.end());
            if head.closes {
                break;
            }
        }
        Ok(())
    }

    /// Reads until the buffer starts with a complete request, and returns the request's head. `None` if the
    /// caller has closed the connection or the request is invalid.
    async fn request(&mut self) -> io::Result<Option<Head>> {
        let head = loop {
            match Head::parse(&self.buffer) {
                Parsed::Whole(head) => break head,
                Parsed::Part if self.buffer.len() < LARGEST_BODY && self.read().await? => {}
                Parsed::Part => return Ok(None),
                Parsed::Wrong(status) => {
                    self.stream.write_all(&response(status, None)).await?;
                    return Ok(None);
                }
            }
        };
        if head.expects_continue && self.buffer.len() < head.end() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        while self.buffer.len() < head.end() {
            if !self.read().await? {
                return Ok(None);
            }
        }
        Ok(Some(head))
    }

    /// Reads the available bytes. Returns `false` if the caller has closed the connection.
    async fn read(&mut self) -> io::Result<bool> {
        self.buffer.reserve(CHUNK);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    async fn answer(&mut self, head: &Head) -> io::Result<AfterRequest> {
        let path = &self.buffer[head.path.clone()];
        let endpoint = self.shared.endpoint(path);
        let stay = InFlight::begin(endpoint);
        let endpoint = &*stay.endpoint;
        let age = stamp::age(&self.buffer[head.length..head.end()]);
        let visit = Visit::new(head.id, self.shared.start.elapsed(), endpoint.number);
        let place = self.shared.log().write(visit);
        self.check(head, &stay);
        // An endpoint that responds immediately does not need to subscribe to changes of its behaviour.
        let (mut answer, closes) = match &*endpoint.behaviour.borrow() {
            Behaviour::Hang | Behaviour::Hostile(_) => (None, None),
            behaviour @ Behaviour::Closes { after } => {
                (behaviour.answer(stay.number, stay.beside), Some(*after))
            }
            behaviour => (behaviour.answer(stay.number, stay.beside), None),
        };
        if answer.is_none() {
            let mut behaviour = endpoint.behaviour.subscribe();
            answer = loop {
                let now = behaviour.borrow_and_update().clone();
                if let Behaviour::Hostile(how) = now {
                    return hostile::answer(self, how).await;
                }
                if let Some(answer) = now.answer(stay.number, stay.beside) {
                    break Some(answer);
                }
                tokio::select! {
                    changed = behaviour.changed() => if changed.is_err() { break None },
                    waited = self.wait(None) => if let Waited::Gone = waited { break None },
                }
            };
        }
        let Some(Answer { status, takes, retry_after }) = answer else { return Ok(AfterRequest::End) };
        if !takes.is_zero()
            && let Waited::Gone = self.wait(Some(takes)).await
        {
            return Ok(AfterRequest::End);
        }
        if status == 200 && retry_after.is_none() {
            self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
        } else {
            self.stream.write_all(&response(status, retry_after)).await?;
        }
        if (200..300).contains(&status) {
            stay.delivered();
        }
        let group = usize::from(endpoint.group.load(std::sync::atomic::Ordering::Relaxed));
        self.shared.log().answered(place, status, group, age);
        if let Some(after) = closes {
            tokio::time::sleep(after).await;
            return Ok(AfterRequest::End);
        }
        Ok(AfterRequest::Next)
    }

    fn check(&self, head: &Head, stay: &InFlight) {
        let Some(check) = &self.shared.check else { return };
        let received = Received::of(head, &self.buffer);
        if !received.is_some_and(|received| check(&received)) {
            stay.endpoint.unsigned.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Waits for this time (`None`: without a limit), or until the caller disconnects.
    async fn wait(&mut self, time: Option<Duration>) -> Waited {
        let end = time.map(|time| Instant::now() + time);
        loop {
            // Stop reading from a caller that sends too much in advance.
            let may_read = self.buffer.len() < LARGEST_BODY;
            let over = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return Waited::Over,
                read = self.read(), if may_read => match read {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return Waited::Gone,
                },
            }
        }
    }
}

/// Returns the bytes of a response without a body.
fn response(status: u16, retry_after: Option<u32>) -> Vec<u8> {
    let retry_after = retry_after.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    format!("HTTP/1.1 {status} Told so\r\n{retry_after}content-length: 0\r\n\r\n").into_bytes()
}
