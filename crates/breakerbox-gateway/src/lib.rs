//! The `breakerbox` binary, as a library so that tests and fuzz targets can reach its parts.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`replay`] | runs past traffic through the engine in virtual time |
//! | [`cli`] | the command line: reads arguments, opens files, prints |

pub mod cli;
pub mod replay;
