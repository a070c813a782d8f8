//! Responses that no server should send. Each continues until the caller disconnects.

use std::io;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::behaviour::Hostile;
use super::connection::{AfterRequest, Connection};

/// The declared length of the flooding body, in bytes: 10 GB.
const FLOOD: u64 = 10_000_000_000;

/// The start of the response that is sent at one byte per second.
const DRIPPED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000000\r\n\r\n";

pub(super) async fn answer(connection: &mut Connection, how: Hostile) -> io::Result<AfterRequest> {
    let stream = &mut connection.stream;
    match how {
        Hostile::Drip => {
            for byte in DRIPPED.iter().chain(std::iter::repeat(&b'x')) {
                stream.write_all(std::slice::from_ref(byte)).await?;
                sleep(Duration::from_secs(1)).await;
            }
        }
        Hostile::Flood => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {FLOOD}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let chunk = vec![b'x'; 64 << 10];
            for _ in 0..FLOOD / chunk.len() as u64 {
                stream.write_all(&chunk).await?;
            }
        }
        Hostile::GzipBomb => {
            let bomb = gzip_bomb();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                bomb.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&bomb).await?;
            return Ok(AfterRequest::Next);
        }
        Hostile::HeaderFlood => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            let line = format!("x-flood: {}\r\n", "x".repeat(1_000));
            for _ in 0..FLOOD / line.len() as u64 {
                stream.write_all(line.as_bytes()).await?;
            }
        }
        Hostile::Garbage => {
            // Not the start of an HTTP response, and with all byte values.
            let garbage: Vec<u8> = (0..=u8::MAX).rev().cycle().take(4 << 10).collect();
            stream.write_all(&garbage).await?;
        }
        Hostile::HalfClose => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf of it").await?;
            stream.shutdown().await?;
            // The read half of the connection stays open, so that the caller does not get a reset.
            sleep(Duration::from_secs(60)).await;
        }
        Hostile::Reset => set_socket_linger(&*stream, Some(Duration::ZERO))?,
    }
    Ok(AfterRequest::End)
}

/// Returns a gzip member of about 60 KB that decompresses to 10 MB of zeros. It is sent repeatedly, because
/// several gzip members in a row are a valid body.
fn gzip_bomb() -> Vec<u8> {
    const MATCHES: usize = 40_000;
    let mut bits = Bits::default();
    // The final deflate block, with fixed Huffman codes.
    bits.push(0b1, 1);
    bits.push(0b01, 2);
    // A zero byte; then many times "repeat the previous byte 258 times".
    bits.push_code(0x30, 8);
    for _ in 0..MATCHES {
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    bits.push_code(0, 7);
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bomb.extend(bits.bytes);
    bomb
}

/// Writes bits in deflate order, with the lowest bit of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for place in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = u8::from(value >> place & 1 == 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (self.used % 8);
            }
            self.used += 1;
        }
    }

    /// Writes a Huffman code, highest bit first.
    fn push_code(&mut self, code: u32, count: u32) {
        for place in (0..count).rev() {
            self.push(code >> place & 1, 1);
        }
    }
}
