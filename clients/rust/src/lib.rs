//! Does to a minibroker broker, from Rust tests, what its HTTP control plane serves: topics, records, groups, faults, the
//! journal of requests, time, settings, snapshots and resets.
//!
//! [`Broker::start`] starts a broker as a child process, and [`Client::new`] is a client of one that runs elsewhere:
//!
//! ```no_run
//! use minibroker_control::{Broker, Expectation, Format};
//!
//! # fn main() -> Result<(), minibroker_control::Error> {
//! let broker = Broker::options().topic("orders:3").start()?;
//! let expected = Expectation { key: Some("7".into()), ..Default::default() };
//! let record = broker.expect("orders", &expected, Format::Json)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each method is one request. Its name is the id of the operation in the broker's OpenAPI document. A request that the
//! broker refuses, or whose wait was in vain, is an [`Error::Refused`].

mod answers;
mod client;
mod operations;
mod payload;
mod serve;
mod types;

pub use answers::*;
pub use client::{Client, Error, Problem};
pub use payload::{Format, Payload, Shown};
pub use serve::{Broker, ServeOptions};
pub use types::*;

/// The version of this crate, which is that of the broker it was made for.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
