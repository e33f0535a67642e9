//! The gate of a session, where its connections and datagrams arrive.

mod accept;
mod datagrams;
mod dial;
mod dns_flow;
mod first_words;
mod metered;
mod proxy_flow;
mod refusal;
mod relay;
mod tasks;
mod tcp_flow;
#[cfg(test)]
mod tests;
mod udp_flow;

pub(crate) use accept::accept;
pub(crate) use datagrams::GateDatagrams;
pub(crate) use dial::{connect, open_addresses};
pub(crate) use dns_flow::answer_datagrams;
pub(crate) use tasks::Tasks;
pub(crate) use udp_flow::UdpFlows;
