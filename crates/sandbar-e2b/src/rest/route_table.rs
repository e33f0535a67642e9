//! A list of routes from which both the router and the path prefixes of an API are made.

use axum::{Router, routing::MethodRouter};

/// Paths and their handlers. Dispatch by prefix ([`crate::Route`]) and the router are derived from
/// the same table, so a new route is reachable without a second list to update.
pub(crate) struct RouteTable<S>(Vec<(&'static str, MethodRouter<S>)>);

impl<S: Clone + Send + Sync + 'static> RouteTable<S> {
    pub(crate) fn new<const N: usize>(routes: [(&'static str, MethodRouter<S>); N]) -> Self {
        Self(routes.into())
    }

    pub(crate) fn into_router(self, state: S) -> Router {
        let routes = self.0.into_iter();
        routes
            .fold(Router::new(), |router, (path, methods)| {
                router.route(path, methods)
            })
            .with_state(state)
    }

    /// Returns each path up to its first parameter: `/sandboxes` for `/sandboxes/{id}/pause`.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(path, _)| {
            let fixed = path.split_once("/{").map_or(*path, |(fixed, _)| fixed);
            fixed.trim_end_matches('/')
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;

    #[test]
    fn prefix_is_the_path_before_the_first_parameter() {
        let handler = || get(async || ());
        let table = RouteTable::<()>::new([
            ("/sandboxes", handler()),
            ("/v2/sandboxes/{id}/pause", handler()),
            ("/volumes/{*rest}", handler()),
        ]);
        let prefixes: Vec<_> = table.prefixes().collect();
        assert_eq!(prefixes, ["/sandboxes", "/v2/sandboxes", "/volumes"]);
    }
}
