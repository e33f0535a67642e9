//! The listeners of a session: accept its connections and datagrams, determine where each wants to
//! go, and serve or refuse it.

mod accept;
mod datagram_socket;
mod dns_flow;
mod first_bytes;
mod metered;
mod proxy_flow;
mod refuse;
mod relay;
mod tasks;
mod tcp_flow;
#[cfg(test)]
mod tests;
mod udp_flow;

pub(crate) use accept::accept;
pub(crate) use datagram_socket::DatagramSocket;
pub(crate) use dns_flow::answer_datagrams;
pub(crate) use tasks::Tasks;
pub(crate) use udp_flow::UdpFlows;
