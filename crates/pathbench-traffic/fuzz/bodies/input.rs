//! Decisions out of bytes: 0 where there are none left.

/// What is left of an input.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// One of `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let (high, low) = if count > 256 { (self.byte(), self.byte()) } else { (0, self.byte()) };
        (usize::from(high) << 8 | usize::from(low)) % count.max(1)
    }

    /// A number near the ends of its range as often as within.
    pub(crate) fn number(&mut self) -> u64 {
        let offset = u64::from(self.byte());
        match self.byte() % 8 {
            0 => offset,
            1 => offset << 10,
            2 => offset << 24,
            3 => offset << 40,
            4 => (1 << 55) + offset,
            5 => (1 << 63) - offset,
            6 => u64::MAX - offset,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
