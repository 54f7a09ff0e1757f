//! The clients that can load a server: all, or those with a token.

pub use pathbench_api::token::{Audience, KeyTooShort, MAX_VALIDITY, Serial, TokenKey, TokenRefusal};

use pathbench_record::time::SharedClock;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug, Clone)]
pub enum Access {
    Open,
    /// Only clients with a valid token, within the limits.
    Token {
        key: TokenKey,
        /// For the tokens' expiry.
        clock: SharedClock,
        revoked: RevokedTokens,
    },
}

/// Tokens that are refused before they expire, by their serial numbers; the list can be replaced while a server runs.
#[derive(Debug, Clone, Default)]
pub struct RevokedTokens(Arc<RwLock<BTreeSet<Serial>>>);

impl RevokedTokens {
    pub fn replace(&self, serials: BTreeSet<Serial>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = serials;
    }

    fn include(&self, serial: Serial) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&serial)
    }
}

impl Access {
    pub(crate) fn check(&self, token: Option<&str>) -> Result<(), TokenRefusal> {
        match (self, token) {
            (Self::Open, _) => Ok(()),
            (Self::Token { .. }, None) => Err(TokenRefusal::Missing),
            (Self::Token { key, clock, revoked }, Some(token)) => {
                let token = key.check(Audience::Test, token, clock.unix_seconds())?;
                if revoked.include(token.serial) { Err(TokenRefusal::Revoked) } else { Ok(()) }
            }
        }
    }
}
