//! The `breakerbox` command, as its users run it.

#![allow(clippy::unwrap_used)]

mod addresses;
mod api;
mod api_commands;
mod api_listings;
mod backup;
mod clocks;
mod command;
mod command_line;
mod config;
mod connection_ends;
mod data_folder;
mod dispatch;
mod docs;
mod fake_api;
mod gateway;
mod hostile;
mod hostile_receivers;
mod hostile_tls;
mod https;
mod limits;
mod listen;
mod metrics;
mod notices;
mod own_lacks;
mod own_pauses;
mod permits;
mod program;
mod queue;
mod records;
mod reminders;
mod replay;
mod replay_errors;
mod replay_output;
mod sending;
mod signals;
mod signatures;
mod try_it_out;
