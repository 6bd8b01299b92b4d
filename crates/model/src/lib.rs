//! Providers: the wires, streaming, retry classification, and the rehearsal server.
//!
//! Start at [`Provider`]: it opens a [`Dialogue`], which is pushed messages and asked for answers. One
//! `ask` is one attempt over the network; the caller runs the retry loop with [`RetryPolicy`], so that
//! every attempt can be journalled.
//!
//! What is here: [`Remote`] (HTTP, five wires), [`planner`] (a program that is asked for each decision), [`Scripted`] (in
//! process, for tests), [`rehearse`] (a server that plays a script over the real wires) [`cassette`] (record and replay) and [`agent_runtime`] (what users
//! of rust-agent-runtime bring along). What is not: a clock of its own for retries, keys
//! read from the environment, hidden retries, redirects, proxies.

pub mod agent_runtime;
mod body;
pub mod cassette;
pub mod catalogue;
mod classify;
mod clip;
mod endpoint;
mod failure;
mod http;
pub mod ndjson;
pub mod planner;
pub mod presets;
pub mod prices;
mod provider;
mod rate_limits;
pub mod rehearse;
mod remote;
mod retry;
mod scripted;
mod scrub;
mod secret;
mod sigv4;
pub mod sse;
pub mod wire;

pub use endpoint::{BaseUrl, BaseUrlError, PlainHttp};
pub use failure::{Billed, Failure, FailureClass};
pub use http::HttpClient;
pub use provider::{
    Answer, Beside, BoxFuture, Dialogue, Discard, Effort, Invocation, OutputSchema, Prelude, Provider, Sink,
};
pub use rate_limits::{RateLimits, Window};
pub use remote::{Remote, RemoteBuilder, RemoteError};
pub use retry::{RetryPolicy, parse_retry_after};
pub use scripted::{Record, Scripted};
pub use secret::{Auth, Secret};
pub use sigv4::AwsKeys;
pub use wire::WireKind;
