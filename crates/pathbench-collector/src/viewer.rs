//! Who reads: everybody, or the operator.

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
