//! Listings, page by page.

/// The largest page.
pub const MAX_PAGE: usize = 500;

/// Which page of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// Where the page before ended; none: the first page.
    pub after: Option<Cursor>,
    /// How many at the most, from 1 to [`MAX_PAGE`]; anything else is brought within.
    pub limit: usize,
}

impl PageOf {
    /// The first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// The page after this place.
    #[must_use]
    pub const fn after(cursor: Cursor, limit: usize) -> Self {
        Self { after: Some(cursor), limit }
    }

    /// The limit, within its bounds.
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

/// Where a page ended. What it says is the listing's own affair; it fits into a query as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// A part of a listing.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// What is listed. It may be less than asked for, or nothing, and not the last page.
    pub items: Vec<T>,
    /// Where to go on; none: that was all.
    pub next: Option<Cursor>,
}
