//! Extracts a request's priority.

use breakerbox_core::throttle::Priority;

use crate::extract::ExtractPriority;

/// Extracts the [`Priority`] from the request's extensions.
///
/// ```
/// use breakerbox::ExtractPriority;
/// use breakerbox::http::PriorityFromExtension;
/// use breakerbox::throttle::Priority;
///
/// let mut request = http::Request::get("https://api.example.com/orders").body(())?;
/// assert_eq!(PriorityFromExtension.priority(&request), None);
/// request.extensions_mut().insert(Priority::HIGH);
/// assert_eq!(PriorityFromExtension.priority(&request), Some(Priority::HIGH));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorityFromExtension;

impl<B> ExtractPriority<http::Request<B>> for PriorityFromExtension {
    fn priority(&self, request: &http::Request<B>) -> Option<Priority> {
        request.extensions().get().copied()
    }
}
