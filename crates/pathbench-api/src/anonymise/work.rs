//! The bound of an anonymiser's work.

/// Characters that an anonymiser may still look at, and whether somebody waits for its outcome.
pub struct Work<'a> {
    left: u64,
    unchecked: u64,
    is_cancelled: Option<&'a dyn Fn() -> bool>,
}

/// Characters between two looks at the cancel flag.
const CHECK_INTERVAL: u64 = 1 << 16;

impl<'a> Work<'a> {
    /// For the texts of this host.
    pub const fn unlimited() -> Self {
        Self { left: u64::MAX, unchecked: 0, is_cancelled: None }
    }

    /// At most `characters`, each look at one counted, and only until `is_cancelled`.
    pub fn with_limit(characters: u64, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { left: characters, unchecked: 0, is_cancelled: Some(is_cancelled) }
    }

    /// Whether the bound is reached, or the work was cancelled.
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Counts `characters`; false at the end.
    pub fn spend(&mut self, characters: usize) -> bool {
        let characters = characters as u64;
        self.left = self.left.saturating_sub(characters);
        self.unchecked += characters;
        if self.unchecked >= CHECK_INTERVAL {
            self.unchecked = 0;
            if self.is_cancelled.is_some_and(|is_cancelled| is_cancelled()) {
                self.left = 0;
            }
        }
        !self.is_over()
    }
}
