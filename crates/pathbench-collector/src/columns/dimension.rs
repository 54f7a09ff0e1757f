//! The properties of results that they are grouped by.

/// A property of results that charts group them by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    Server,
    Operator,
    /// A result with networks of several kinds counts in each.
    Kind,
    Experiment,
    Scenario,
    Mode,
    Kernel,
}

impl Dimension {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Operator => "operator",
            Self::Kind => "network",
            Self::Experiment => "experiment",
            Self::Scenario => "scenario",
            Self::Mode => "mode",
            Self::Kernel => "kernel",
        }
    }
}
