//! Pagination of listings.

/// The maximum page size.
pub const MAX_PAGE: usize = 500;

/// A request for one page of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// The cursor at which the previous page ended. `None`: the first page is requested.
    pub after: Option<Cursor>,
    /// The maximum number of items, from 1 to [`MAX_PAGE`]; other values are clamped.
    pub limit: usize,
}

impl PageOf {
    /// Returns a request for the first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// Returns a request for the page after this cursor.
    #[must_use]
    pub const fn after(cursor: Cursor, limit: usize) -> Self {
        Self { after: Some(cursor), limit }
    }

    /// Returns the limit, clamped to the range from 1 to [`MAX_PAGE`].
    #[must_use]
    pub fn size(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE)
    }
}

impl Default for PageOf {
    fn default() -> Self {
        Self::first(50)
    }
}

/// The position after a page. Its content is opaque; it can be used in a URL query without encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// One page of a listing.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// The items. A page may contain fewer than requested, or none, even if it is not the last.
    pub items: Vec<T>,
    /// The cursor for the next page. `None`: this is the last page.
    pub next: Option<Cursor>,
}
