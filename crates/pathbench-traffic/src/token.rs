//! The clients that can load a server: all, or those with a token.

pub use pathbench_api::token::{Audience, KeyTooShort, MAX_VALIDITY, TokenKey, TokenRefusal};

use pathbench_record::time::SharedClock;

#[derive(Debug, Clone)]
pub enum Access {
    Open,
    /// Only clients with a valid token, within the limits.
    Token {
        key: TokenKey,
        /// For the tokens' expiry.
        clock: SharedClock,
    },
}

impl Access {
    pub(crate) fn check(&self, token: Option<&str>) -> Result<(), TokenRefusal> {
        match (self, token) {
            (Self::Open, _) => Ok(()),
            (Self::Token { .. }, None) => Err(TokenRefusal::Missing),
            (Self::Token { key, clock }, Some(token)) => {
                key.check(Audience::Test, token, clock.unix_seconds()).map(drop)
            }
        }
    }
}
