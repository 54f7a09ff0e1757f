//! Valid and invalid tokens.

use pathbench_api::token::{KeyTooShort, MAX_VALIDITY, MintError, TokenKey, TokenRefusal};
use std::time::Duration;

const NOW: u64 = 1_800_000_000;
const HOUR: Duration = Duration::from_secs(3600);

fn key(seed: char) -> TokenKey {
    TokenKey::from_text(&seed.to_string().repeat(32)).unwrap()
}

#[test]
fn a_token_is_valid_until_it_expires_and_with_its_key_only() {
    let token = key('a').mint("alice", NOW, HOUR).unwrap();
    assert_eq!(key('a').check(&token, NOW), Ok("alice"));
    assert_eq!(key('a').check(&format!(" {token}\n"), NOW + 3599), Ok("alice"));
    let expired = key('a').check(&token, NOW + 3600 + 240);
    assert_eq!(expired, Err(TokenRefusal::Expired { since: Duration::from_secs(240) }));
    assert!(expired.unwrap_err().to_string().contains("4 min ago"));
    assert_eq!(key('b').check(&token, NOW), Err(TokenRefusal::Wrong));
    // A token of another server is wrong, expired or not.
    assert_eq!(key('b').check(&token, NOW + 9000), Err(TokenRefusal::Wrong));
}

#[test]
fn no_part_of_a_token_can_be_changed() {
    let token = key('a').mint("alice", NOW, HOUR).unwrap();
    for at in 0..token.len() {
        for other in [b'0', b'1', b'f', b'.', b'b'] {
            let mut bytes = token.clone().into_bytes();
            if bytes[at] == other {
                continue;
            }
            bytes[at] = other;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(key('a').check(&changed, NOW).is_err(), "{changed}");
        }
    }
    for wrong in ["", ".", "pb1", "pb1...", "pb2.1.a.00", "pb1.9999999999.x.", &"9".repeat(10_000)] {
        assert_eq!(key('a').check(wrong, NOW), Err(TokenRefusal::Malformed), "{wrong}");
    }
}

#[test]
fn the_format_is_the_documented_one() {
    // printf %s pb1.1800003600.alice | openssl dgst -sha256 -hmac (32 times a)
    let token = key('a').mint("alice", NOW, HOUR).unwrap();
    assert_eq!(token, format!("pb1.1800003600.alice.{REFERENCE}"));
}

const REFERENCE: &str = "93d9da1af18171c3ed77ffd7e64936f583d240a1f7e7d85107bfd4c46be01ab1";

#[test]
fn keys_names_and_validities_are_bounded() {
    assert!(TokenKey::from_text(&TokenKey::file_text([7; 32])).is_ok());
    assert_eq!(TokenKey::from_text("  short \n").unwrap_err(), KeyTooShort { found: 5 });
    for name in ["", "a.b", "two words", "ü", &"x".repeat(65)] {
        assert!(matches!(key('a').mint(name, NOW, HOUR), Err(MintError::Name { .. })), "{name}");
    }
    for validity in [Duration::ZERO, MAX_VALIDITY + HOUR] {
        assert_eq!(key('a').mint("a", NOW, validity), Err(MintError::Validity));
    }
    assert!(key('a').mint("a", u64::MAX, HOUR).is_ok());
}
