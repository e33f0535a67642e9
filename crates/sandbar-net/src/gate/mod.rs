//! The gate of a session, where its connections and datagrams arrive.

mod datagrams;
mod dial;
mod metered;
mod refusal;
mod relay;
