//! The side that asks: addresses, TLS, channels over several servers, and what a refusal says. For the command line, for
//! worker SDKs, and for data planes towards their control plane.

mod address;
mod channels;
mod failure;

pub use address::{ADDRESSES_MAX, Address, AddressProblem};
pub use channels::{ChannelProblem, Channels, Dial};
pub use failure::{Code, Failure, Reason};
