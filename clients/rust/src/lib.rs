//! The HTTP control plane of a minibroker broker for Rust tests: topics, records, groups, faults, the journal of
//! requests, time, settings, snapshots and resets.
//!
//! [`Broker::start`] starts a broker as a child process, and [`Client::new`] is a client of one that runs elsewhere:
//!
//! ```no_run
//! use minibroker::{Broker, Expectation, Format};
//!
//! # fn main() -> Result<(), minibroker::Error> {
//! let broker = Broker::options().topic("orders:3").start()?;
//! let expected = Expectation { key: Some("7".into()), ..Default::default() };
//! let record = broker.expect("orders", &expected, Format::Json)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each method sends one request and has the name of the operation's id in the broker's OpenAPI document. A request
//! that the broker refuses, or a wait that times out, is an [`Error::Refused`].

mod answers;
mod client;
mod operations;
mod payload;
mod program;
mod serve;
mod types;

pub use answers::*;
pub use client::{Client, Error, Problem};
pub use payload::{Format, Payload, Shown};
pub use serve::{Broker, ServeOptions};
pub use types::*;

/// The version of this crate, and of the broker that it was made for.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
