//! Encodes the end of a page as text that can be used in a URL query. All backends use the same text, so a cursor
//! stays valid when the stored data is moved to another backend.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox_model::objects::{Id, TenantId};

use super::{Cursor, Page, PageOf, RecordsError};

/// A position at which a page can end.
pub trait CursorPosition: Sized {
    /// Encodes the position.
    fn write(&self) -> String;

    /// Decodes a position, or returns `None` if the text is not one.
    fn read(text: &str) -> Option<Self>;
}

impl CursorPosition for Id {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl CursorPosition for TenantId {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl CursorPosition for u64 {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        number(text)
    }
}

/// A position in the circuit history: a time, an epoch and a circuit key.
impl CursorPosition for (u64, u64, String) {
    fn write(&self) -> String {
        format!("{}.{}.{}", self.0, self.1, URL_SAFE_NO_PAD.encode(&self.2))
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (at, epoch) = (number(parts.next()?)?, number(parts.next()?)?);
        let key = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        Some((at, epoch, String::from_utf8(key).ok()?))
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)?.parse().ok()
}

/// Returns the position at which the previous page ended. `None`: this is the first page.
///
/// # Errors
/// Returns [`Cursor`](RecordsError::Cursor) if the cursor is not from an earlier page of this listing.
pub fn position<P: CursorPosition>(page: &PageOf) -> Result<Option<P>, RecordsError> {
    match &page.after {
        None => Ok(None),
        Some(Cursor(text)) => P::read(text).map(Some).ok_or(RecordsError::Cursor),
    }
}

/// Returns a page of at most `size` items. `items` contains one more if there is another page.
pub fn page<T, P: CursorPosition>(mut items: Vec<T>, size: usize, position: impl Fn(&T) -> P) -> Page<T> {
    let is_last = items.len() <= size;
    items.truncate(size);
    let next = items.last().filter(|_| !is_last).map(|last| Cursor(position(last).write()));
    Page { items, next }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;

    use super::*;

    #[test]
    fn places_are_read_back_and_nothing_else_is_a_place() {
        let id = Id::first_at(Timestamp::from_millis(1_763_000_000_123));
        assert_eq!(Id::read(&id.write()), Some(id));
        let change = (7, u64::MAX, "acme https://a.example/é.1".to_owned());
        assert_eq!(<(u64, u64, String)>::read(&change.write()), Some(change));
        for text in ["", "7", "7.8", "+7.8.YQ", "7.8.!", "7.8.YQ.", "x.8.YQ", "99999999999999999999.1.YQ"] {
            assert_eq!(<(u64, u64, String)>::read(text), None, "{text}");
        }
        for text in ["-1", "+1", "1.5", "1 ", "18446744073709551616"] {
            assert_eq!(u64::read(text), None, "{text}");
        }
    }
}
