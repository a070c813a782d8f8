//! Notices: what people are told.
mod decide;
mod digest;
mod growth;
mod kind;
mod message;
mod notice;
mod pacing;
mod target;
#[cfg(test)]
mod tests;
mod text;
pub use self::decide::{Known, is_old, notices};
pub use self::digest::Headline;
pub use self::growth::{Grown, Growth};
pub use self::kind::{Kind, KindError, Kinds};
pub use self::message::Message;
pub use self::notice::*;
pub use self::pacing::*;
pub use self::target::*;
pub use self::text::Text;
