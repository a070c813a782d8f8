//! The `breakerbox` command, as its users run it.

#![allow(clippy::unwrap_used)]

mod api_commands;
mod api_listings;
mod backup;
mod command;
mod command_line;
mod config;
mod data_folder;
mod docs;
mod fake_api;
mod generated_clients;
mod guides;
mod https;
mod listen;
mod program;
mod programs;
mod python;
mod quick_start;
mod replay;
mod replay_errors;
mod replay_logs;
mod replay_output;
mod signals;
mod tables;
mod try_it_out;
