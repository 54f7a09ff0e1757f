//! The keys of a collector: one secret, from which the keys of tokens are derived.

use data_encoding::HEXLOWER;
use pathbench_api::name::Name;
use pathbench_api::token::TokenKey;
use ring::hmac;
use std::fmt;

/// The secret of a collector; all collectors of one database share it.
#[derive(Clone)]
pub struct Keys(hmac::Key);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(secret)")
    }
}

/// The use of a derived key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose<'a> {
    /// Tokens of the operator.
    Admin,
    /// Tokens of agents, where not everybody may submit.
    Submit,
    /// Tokens that a test server accepts; the server reports itself with one, too.
    Server(&'a Name),
}

impl Keys {
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The text of a key file for `pathbench serve --token-key`: HMAC-SHA256 of the purpose.
    pub fn text(&self, purpose: KeyPurpose<'_>) -> String {
        let label = match purpose {
            KeyPurpose::Admin => "admin".to_owned(),
            KeyPurpose::Submit => "submit".to_owned(),
            KeyPurpose::Server(name) => format!("server/{name}"),
        };
        HEXLOWER.encode(hmac::sign(&self.0, label.as_bytes()).as_ref())
    }

    pub fn token_key(&self, purpose: KeyPurpose<'_>) -> TokenKey {
        // 64 characters are never too short.
        TokenKey::from_text(&self.text(purpose)).unwrap_or_else(|error| unreachable!("{error}"))
    }
}
