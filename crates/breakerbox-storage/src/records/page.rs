//! Pagination of listings.

/// The maximum page size.
pub const MAX_PAGE: usize = 500;

/// A request for one page of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// Where the previous page ended. `None`: the first page.
    pub after: Option<Cursor>,
    /// The maximum number of items, from 1 to [`MAX_PAGE`]; values outside are clamped.
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

    /// Returns the limit, clamped to its bounds.
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

/// The end of a page. Its content is private to the listing; it fits into a URL query as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// One page of a listing.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// The items. There may be fewer than requested, or none, although it is not the last page.
    pub items: Vec<T>,
    /// The cursor of the next page. `None`: this is the last page.
    pub next: Option<Cursor>,
}
