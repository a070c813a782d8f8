//! The REST API as its clients see it: a real server on loopback with a real database.

mod accepting;
mod changes;
mod changes_at_once;
mod document;
mod effective;
mod everyday;
mod first_mistakes;
mod guide;
mod hostile;
mod http2;
mod notifications;
mod orders;
mod policies;
mod refused_names;
mod reminders;
mod reminders_refused;
mod repeated_requests;
mod reused_names;
mod schemathesis;
mod shares;
mod site;
mod slow;
mod starting;
mod tenancy;
mod things;
mod waits;
