//! A wall clock that is wrong or is set, while a gateway runs and between two starts.

mod running;
mod site;
mod starting;
