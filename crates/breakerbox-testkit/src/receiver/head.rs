//! The head of an HTTP request: the positions of its path, ID and signature, and the length of its body.
//!
//! Positions are used instead of slices, so that the buffer can grow while the body arrives.

use std::ops::Range;

use super::IdHash;

/// The maximum number of headers in a request.
const MOST_HEADERS: usize = 64;

/// The maximum size of a body, in bytes.
pub(super) const LARGEST_BODY: usize = 4 << 20;

pub(super) struct Head {
    pub(super) path: Range<usize>,
    /// The length of the request head, which is also the position of the body.
    pub(super) length: usize,
    pub(super) body: usize,
    pub(super) id: IdHash,
    pub(super) expects_continue: bool,
    pub(super) closes: bool,
}

pub(super) enum Parsed {
    Whole(Head),
    /// The request head is not complete yet.
    Part,
    /// The request head is invalid. The value is the status to respond with.
    Wrong(u16),
}

impl Head {
    pub(super) fn parse(buffer: &[u8]) -> Parsed {
        if buffer.is_empty() {
            return Parsed::Part;
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(buffer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Parsed::Part,
            Err(_) => return Parsed::Wrong(400),
        };
        let Some(path) = request.path else { return Parsed::Wrong(400) };
        let path = path.split(['?', '#']).next().unwrap_or(path);
        // The path is a slice of the buffer; this computes its position.
        let begin = path.as_ptr() as usize - buffer.as_ptr() as usize;
        let mut head = Self {
            path: begin..begin + path.len(),
            length,
            body: 0,
            id: IdHash::of(b""),
            expects_continue: false,
            closes: false,
        };
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // Compare the length first, because this runs for each header of each request.
            match header.name.len() {
                10 if is("webhook-id") => head.id = IdHash::of(header.value),
                10 if is("connection") => head.closes = header.value.eq_ignore_ascii_case(b"close"),
                6 if is("expect") => head.expects_continue = true,
                17 if is("transfer-encoding") => return Parsed::Wrong(411),
                14 if is("content-length") => {
                    let length = str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
                    match length {
                        Some(length) if length <= LARGEST_BODY => head.body = length,
                        _ => return Parsed::Wrong(413),
                    }
                }
                _ => {}
            }
        }
        Parsed::Whole(head)
    }

    /// Returns the position of the end of the request.
    pub(super) fn end(&self) -> usize {
        self.length + self.body
    }
}

/// A received request, as passed to the signature check.
#[derive(Debug)]
pub struct Received<'a> {
    /// The path of the request.
    pub path: &'a str,
    /// All headers, as names and values.
    headers: Vec<(&'a str, &'a [u8])>,
    /// The request body.
    pub body: &'a [u8],
}

impl<'a> Received<'a> {
    /// Returns the request that starts with this head. Parses the headers again, because only signature checks
    /// need them.
    pub(super) fn of(head: &Head, request: &'a [u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        parsed.parse(request).ok()?;
        let path = str::from_utf8(request.get(head.path.clone())?).ok()?;
        let headers = parsed.headers.iter().map(|header| (header.name, header.value)).collect();
        Some(Self { path, headers, body: request.get(head.length..head.end())? })
    }

    /// Returns the value of a header. `None` if the header is missing, or its value is not valid UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let named = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        str::from_utf8(named.1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_path_id_and_body() {
        let text = b"POST /a/b?c=1 HTTP/1.1\r\nHost: x\r\nWebhook-Id: evt_1\r\nContent-Length: 2\r\n\r\n{}";
        let Parsed::Whole(head) = Head::parse(text) else { panic!("it is whole") };
        assert_eq!(&text[head.path.clone()], b"/a/b");
        assert_eq!((head.id, head.body, head.end()), (IdHash::of(b"evt_1"), 2, text.len()));
        let received = Received::of(&head, text).unwrap();
        assert_eq!((received.path, received.header("HOST"), received.body), ("/a/b", Some("x"), &b"{}"[..]));
    }

    #[test]
    fn what_is_not_whole_or_not_right() {
        assert!(matches!(Head::parse(b"POST / HT"), Parsed::Part));
        for (text, status) in [
            ("\0\x01\x02", 400),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", 413),
            ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 413),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 411),
        ] {
            assert!(
                matches!(Head::parse(text.as_bytes()), Parsed::Wrong(found) if found == status),
                "{text}"
            );
        }
    }
}
