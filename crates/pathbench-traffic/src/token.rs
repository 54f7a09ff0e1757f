//! The clients that can load a server: all, or those with a token.

pub use pathbench_token::{KeyTooShort, MAX_VALIDITY, MintError, TokenKey, TokenRefusal};

#[derive(Debug, Clone)]
pub enum Access {
    Open,
    /// Only clients with a valid token, within the limits.
    Token {
        key: TokenKey,
        /// Seconds since the Unix epoch, to check the tokens' expiry.
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
