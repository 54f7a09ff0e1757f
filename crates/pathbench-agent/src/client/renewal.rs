//! The renewal of an agent's token: a collector gives a new one before the old one ends, and the state directory keeps it.

use super::address::CollectorAddress;
use crate::durable;
use pathbench_api::token::{Audience, Token};
use pathbench_record::file;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

const FILE: &str = "collector-token.json";
const FILE_BYTES: u64 = 8 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct Renewal {
    collector: String,
    token: String,
}

/// Whether `new` is `old` again with a later end. What a collector answers is a claim.
fn is_renewal(old: &str, new: &str) -> bool {
    let (Ok(old), Ok(new)) = (Token::read(old), Token::read(new)) else { return false };
    let is_same = |token: &Token| (token.audience, token.serial, token.subject.clone());
    old.audience == Audience::Agent && is_same(&old) == is_same(&new) && new.expiry > old.expiry
}

/// The renewal of `given` that was kept for this collector.
pub(crate) fn load(state_directory: &Path, collector: &CollectorAddress, given: &str) -> Option<String> {
    let text = file::read(state_directory.join(FILE), FILE_BYTES).ok()?;
    let kept: Renewal = serde_json::from_slice(&text).ok()?;
    (kept.collector == collector.to_string() && is_renewal(given, &kept.token)).then_some(kept.token)
}

/// Keeps `new` in place of `old`; whether it is its renewal.
pub(crate) fn keep(
    state_directory: &Path,
    collector: &CollectorAddress,
    old: &str,
    new: &str,
) -> io::Result<bool> {
    if !is_renewal(old, new) {
        return Ok(false);
    }
    let renewal = Renewal { collector: collector.to_string(), token: new.to_owned() };
    let text = serde_json::to_vec(&renewal)?;
    durable::write(&state_directory.join(FILE), &[&text]).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_api::name::Name;
    use pathbench_api::token::TokenKey;
    use std::time::Duration;

    #[test]
    fn only_the_same_token_with_a_later_end_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let collector: CollectorAddress = "https://c.example".parse().unwrap();
        let key = TokenKey::from_text(&"k".repeat(32)).unwrap();
        let mint = |audience, name: &str, serial, now| {
            let subject = Name::new(name).unwrap();
            key.mint(audience, &subject, [serial; 8], now, Duration::from_secs(60)).unwrap()
        };
        let given = mint(Audience::Agent, "a", 1, 1000);
        let load = |given: &str| load(home.path(), &collector, given);
        for wrong in [
            "",
            "x",
            &given,
            &mint(Audience::Agent, "a", 1, 900),
            &mint(Audience::Agent, "a", 2, 2000),
            &mint(Audience::Agent, "b", 1, 2000),
            &mint(Audience::Administration, "a", 1, 2000),
        ] {
            assert!(!keep(home.path(), &collector, &given, wrong).unwrap(), "{wrong}");
            assert_eq!(load(&given), None);
        }
        let renewed = mint(Audience::Agent, "a", 1, 2000);
        assert!(keep(home.path(), &collector, &given, &renewed).unwrap());
        assert_eq!(load(&given), Some(renewed.clone()));
        assert_eq!(load(&mint(Audience::Agent, "a", 2, 3000)), None, "the owner gave another token");
        let other: CollectorAddress = "https://d.example".parse().unwrap();
        assert_eq!(super::load(home.path(), &other, &given), None);
        let submission = mint(Audience::Submission, "a", 1, 1000);
        let later = mint(Audience::Submission, "a", 1, 2000);
        assert!(!keep(home.path(), &collector, &submission, &later).unwrap());
    }
}
