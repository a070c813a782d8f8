//! Outgoing HTTP against real receivers, hostile ones among them, and against faults of this host.

#![allow(clippy::unwrap_used)]

mod addresses;
mod connection_ends;
mod hostile_receivers;
mod hostile_tls;
mod own_lacks;
mod own_pauses;
mod sending;
