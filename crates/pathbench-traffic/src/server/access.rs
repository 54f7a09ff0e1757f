//! Who may run tests.

use crate::token::{TokenKey, TokenRefusal};

#[derive(Debug, Clone)]
pub enum Access {
    Open,
    /// Clients with a valid token, within the limits.
    Token {
        /// What the tokens are signed with.
        key: TokenKey,
        /// Seconds since the Unix epoch, for their expiry.
        wall_clock: fn() -> u64,
    },
}

impl Access {
    pub(crate) fn check(&self, token: Option<&str>) -> Result<(), TokenRefusal> {
        match (self, token) {
            (Self::Open, _) => Ok(()),
            (Self::Token { .. }, None) => Err(TokenRefusal::Missing),
            (Self::Token { key, wall_clock }, Some(token)) => key.check(token, wall_clock()).map(drop),
        }
    }
}
