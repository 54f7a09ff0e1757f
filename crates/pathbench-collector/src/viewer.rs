//! The reader of results: everybody, or the operator.

use pathbench_api::consent::Consent;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Sees public results, in the anonymous form.
    Everybody,
    /// Sees all results as they were submitted.
    Operator,
}

impl Viewer {
    pub const fn may_see(self, consent: Consent) -> bool {
        match self {
            Self::Everybody => matches!(consent, Consent::Public),
            Self::Operator => true,
        }
    }
}

/// A viewer, and the prefix of its routes; a layer puts it into the request's extensions. Without it, the viewer is
/// everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub viewer: Viewer,
    /// Without a slash at its end: `/admin`, or nothing.
    pub prefix: &'static str,
}

impl View {
    pub const EVERYBODY: Self = Self { viewer: Viewer::Everybody, prefix: "" };
    pub const OPERATOR: Self = Self { viewer: Viewer::Operator, prefix: "/admin" };

    /// The front page: axum serves the route `/` of a nested router at its prefix, without a slash.
    pub const fn home(self) -> &'static str {
        if self.prefix.is_empty() { "/" } else { self.prefix }
    }
}
