//! The host side of session networks: the shared egress gateway, the environment and certificates
//! of boxes, and the log of egress decisions.

mod decisions;
mod environment;
mod outlet;
mod shared_gateway;
mod trust;

pub(crate) use self::{
    decisions::DecisionLog,
    environment::variables,
    outlet::{NetworkPlan, Outlet, Site},
    shared_gateway::SharedGateway,
};
