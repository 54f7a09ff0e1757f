//! Valid and invalid tokens.

use pathbench_api::name::Name;
use pathbench_api::token::{
    Audience, KeyTooShort, MAX_VALIDITY, NotAValidity, Serial, Token, TokenKey, TokenRefusal, deletion_token,
    is_deletion_token,
};
use std::time::Duration;

const NOW: u64 = 1_800_000_000;
const HOUR: Duration = Duration::from_secs(3600);
const SERIAL: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn key(seed: char) -> TokenKey {
    TokenKey::from_text(&seed.to_string().repeat(32)).unwrap()
}

fn mint(audience: Audience, subject: &str) -> Result<String, NotAValidity> {
    key('a').mint(audience, &Name::new(subject).unwrap(), SERIAL, NOW, HOUR)
}

fn check(seed: char, text: &str, now: u64) -> Result<String, TokenRefusal> {
    key(seed).check(Audience::Test, text, now).map(|token| token.subject.to_string())
}

#[test]
fn a_token_is_valid_until_it_expires_and_with_its_key_only() {
    let token = mint(Audience::Test, "alice").unwrap();
    assert_eq!(check('a', &token, NOW), Ok("alice".to_owned()));
    assert_eq!(check('a', &format!(" {token}\n"), NOW + 3599), Ok("alice".to_owned()));
    let expired = check('a', &token, NOW + 3600 + 240);
    assert_eq!(expired, Err(TokenRefusal::Expired { since: Duration::from_secs(240) }));
    assert!(expired.unwrap_err().to_string().contains("4 min ago"));
    assert_eq!(check('b', &token, NOW), Err(TokenRefusal::Wrong));
    // A token of another server is wrong, expired or not.
    assert_eq!(check('b', &token, NOW + 9000), Err(TokenRefusal::Wrong));
}

#[test]
fn a_token_is_worth_nothing_for_another_audience() {
    for &found in Audience::ALL {
        let text = mint(found, "alice").unwrap();
        for &needed in Audience::ALL {
            let checked = key('a').check(needed, &text, NOW);
            if found == needed {
                assert_eq!(checked.unwrap(), Token::read(&text).unwrap());
            } else {
                assert_eq!(checked, Err(TokenRefusal::Audience { found, needed }));
            }
            // Each audience has a key of its own: the name in the text is not all that differs.
            let [from, to] = [found, needed].map(<&str>::from);
            let renamed = text.replacen(&format!(".{from}."), &format!(".{to}."), 1);
            assert_eq!(key('a').check(needed, &renamed, NOW).is_ok(), found == needed, "{renamed}");
        }
    }
}

#[test]
fn every_name_can_be_the_subject_and_has_one_form() {
    for name in ["a.b", "two words", "ü~", "<b>", &"\u{10348}".repeat(16)] {
        let token = mint(Audience::Agent, name).unwrap();
        assert_eq!(token.split('.').count(), 7, "{token}");
        assert!(token.len() <= 512 && token.bytes().all(|byte| byte.is_ascii_graphic()), "{token}");
        assert_eq!(key('a').check(Audience::Agent, &token, NOW).unwrap().subject.as_str(), name);
    }
    let token = mint(Audience::Agent, "a b").unwrap();
    for other in ["~61~20b", "a~20~62", "a~2", "a~2G", "a b", "a~ff", "", &"a".repeat(65)] {
        let changed = token.replacen("a~20b", other, 1);
        assert_eq!(Token::read(&changed), Err(TokenRefusal::Malformed), "{changed}");
    }
}

#[test]
fn a_renewed_token_keeps_its_serial_and_its_validity() {
    let text = mint(Audience::Agent, "alice").unwrap();
    let token = Token::read(&text).unwrap();
    assert_eq!((token.serial, token.issued, token.expiry), (Serial(SERIAL), NOW, NOW + 3600));
    assert!(!token.is_old(NOW + 1800) && token.is_old(NOW + 1801) && token.is_old(NOW + 99_999));
    let renewed = key('a').renew(&token, NOW + 3000);
    let renewed = key('a').check(Audience::Agent, &renewed, NOW + 6599).unwrap();
    assert_eq!(renewed, Token { issued: NOW + 3000, expiry: NOW + 6600, ..token });
    assert_eq!(Serial::from_hexadecimal(&renewed.serial.to_string()), Some(Serial(SERIAL)));
    for wrong in ["", "0102", "010203040506070G", "01020304050607080"] {
        assert_eq!(Serial::from_hexadecimal(wrong), None, "{wrong}");
    }
}

#[test]
fn no_part_of_a_token_can_be_changed() {
    let token = mint(Audience::Test, "alice").unwrap();
    for at in 0..token.len() {
        for other in [b'0', b'1', b'f', b'.', b'b'] {
            let mut bytes = token.clone().into_bytes();
            if bytes[at] == other {
                continue;
            }
            bytes[at] = other;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(check('a', &changed, NOW).is_err(), "{changed}");
        }
    }
    let old = "pb1.1800003600.alice.93d9da1af18171c3ed77ffd7e64936f583d240a1f7e7d85107bfd4c46be01ab1";
    let more = format!("{token}.00");
    for wrong in ["", ".", "pb2", "pb2......", old, "pb2.test.x.00.1.9999999999.", &more, &"9".repeat(10_000)]
    {
        assert_eq!(check('a', wrong, NOW), Err(TokenRefusal::Malformed), "{wrong}");
    }
}

#[test]
fn the_format_is_the_documented_one() {
    // The key of the audience: printf %s 'pb2 test' | openssl dgst -sha256 -hmac (32 times a); then
    // printf %s TEXT | openssl dgst -sha256 -mac HMAC -macopt hexkey:KEY
    let token = mint(Audience::Test, "alice").unwrap();
    assert_eq!(token, format!("pb2.test.alice.0102030405060708.1800000000.1800003600.{REFERENCE}"));
}

const REFERENCE: &str = "5fee8460df66341ac1f13f75dd39b82bc33f722a430a8fe5df366ead2fd7da11";

#[test]
fn keys_and_validities_are_bounded() {
    assert!(TokenKey::from_text(&TokenKey::file_text([7; 32])).is_ok());
    assert_eq!(TokenKey::from_text("  short \n").unwrap_err(), KeyTooShort { found: 5 });
    let lasting = |now, validity| {
        let subject = Name::new("a").unwrap();
        key('a').mint(Audience::Test, &subject, SERIAL, now, validity)
    };
    for validity in [Duration::ZERO, MAX_VALIDITY + HOUR] {
        assert_eq!(lasting(NOW, validity), Err(NotAValidity));
    }
    assert!(lasting(u64::MAX, HOUR).is_ok());
}

#[test]
fn a_deletion_token_is_worth_nothing_at_another_collector() {
    let secret = "5".repeat(64);
    let [one, other] = ["https://a.example", "https://b.example"].map(|at| deletion_token(&secret, at));
    assert_ne!(one, other);
    assert_eq!(one, deletion_token(&secret, "https://a.example"));
    assert!(!one.contains(&secret) && is_deletion_token(&one) && is_deletion_token(&secret));
    // Nor is any other token one for deletions.
    for &audience in Audience::ALL {
        assert_eq!(is_deletion_token(&mint(audience, "alice").unwrap()), audience == Audience::Deletion);
    }
    let operator = mint(Audience::Administration, "op").unwrap();
    assert!(!is_deletion_token("short") && !is_deletion_token(&operator[..operator.len() - 2]));
}
