//! A finding: the examined object, its state, the meaning and the remedy.

mod id;

pub use id::FindingId;

use serde::Serialize;

/// How a finding affects multipath. The order is the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    Ok,
    /// The object could not be examined: a privilege or a kernel feature is missing.
    NotExamined,
    Advice,
    /// Multipath does not work, or a path is not used, because of this.
    Problem,
}

/// One result of `pathbench check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub id: FindingId,
    pub level: Level,
    /// The interface, address, path or file that the finding concerns; absent for the host as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The state as read or measured: `net.mptcp.enabled is 0`.
    pub found: String,
    /// The consequence; empty for [`Level::Ok`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meaning: String,
    /// Shell commands or sentences that correct it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<String>,
}

impl Finding {
    fn new(id: FindingId, level: Level, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        let (found, meaning) = (found.into(), meaning.into());
        Self { id, level, subject: None, found, meaning, remedy: Vec::new() }
    }

    pub fn ok(id: FindingId, found: impl Into<String>) -> Self {
        Self::new(id, Level::Ok, found, "")
    }

    pub fn advice(id: FindingId, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(id, Level::Advice, found, meaning)
    }

    /// A problem has a remedy: [`Self::with_step`] adds it.
    pub fn problem(id: FindingId, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(id, Level::Problem, found, meaning)
    }

    /// `reason` says why the object was not examined.
    pub fn not_examined(id: FindingId, reason: impl Into<String>) -> Self {
        Self::new(id, Level::NotExamined, reason, "")
    }

    #[must_use]
    pub fn with_subject(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Adds a step of the remedy.
    #[must_use]
    pub fn with_step(mut self, step: impl Into<String>) -> Self {
        self.remedy.push(step.into());
        self
    }

    #[must_use]
    pub fn with_steps(mut self, steps: impl IntoIterator<Item = String>) -> Self {
        self.remedy.extend(steps);
        self
    }
}

/// Orders findings: problems, then advice, what was not examined, what is in order; within a level causes precede their
/// effects (the order of [`FindingId`]).
pub fn order(findings: &mut [Finding]) {
    findings.sort_by(|a, b| (b.level, a.id, &a.subject).cmp(&(a.level, b.id, &b.subject)));
}
