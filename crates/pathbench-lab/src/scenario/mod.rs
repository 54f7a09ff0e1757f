//! The scenario language: TOML text → typed [`Plan`], or every [`Mistake`] in it at once.
//!
//! The text becomes a tree in which each value knows its line; the command line's overrides are put in by key
//! path; the matrix is spread out; each variant is validated in full. Nothing is left to be found out later,
//! except whether this machine can do what is asked, which is for the engines to say.

mod address;
mod catalogue;
mod expect;
mod fade;
mod fields;
mod gathering;
mod hop;
mod keypath;
mod keys;
mod link;
mod matrix;
mod mistake;
mod naming;
mod node;
mod overrides;
mod parameters;
mod plan;
mod preset;
mod section;
mod suggestion;
mod syntax;
mod timeline;
mod topology;
mod traffic;
mod tree;
mod validation;
mod verdict;

pub use catalogue::{Builtin, LoadError, Source, builtin, load};
pub use expect::{Comparison, ExpectationPlan, Figure, Subject, Target};
pub use fields::known_fields;
pub use keys::known_keys;
#[cfg(test)]
pub(crate) use keys::{FADE, FADE_TO, change as change_keys};
pub use mistake::{Ledger, Mistake, MistakeKind, Mistakes};
pub use overrides::Overrides;
pub use plan::{
    Action, Change, EndpointPlan, Engine, EventPlan, FadePlan, Family, Hop, IperfPlan, Link, LinkEnd,
    MptcpPlan, Node, PatternPlan, Plan, QuicPlan, Role, RoutePlan, RulesChange, RunPlan, SocketPlan,
    Topology, VariantPlan, icmp_in_words,
};
pub use tree::Origin;
pub use validation::plan;
