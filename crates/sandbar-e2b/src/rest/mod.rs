//! HTTP pieces the parts of the API share: request fields, JSON, errors, CORS, route tables.

pub(crate) mod cors;
mod drain_body;
mod error;
mod fields;
mod json;
mod port_problem;
mod query;
mod route_table;
pub(crate) mod seconds;

pub(crate) use drain_body::drain_body;
pub(crate) use error::{
    ApiError, ApiResult, bad_request, not_served, rpc_error, sandbox_not_found,
};
pub(crate) use fields::Fields;
pub(crate) use json::Json;
pub use port_problem::PortProblem;
pub(crate) use query::{Query, decoded};
pub(crate) use route_table::RouteTable;
