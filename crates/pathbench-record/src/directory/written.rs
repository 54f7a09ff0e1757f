//! Lines as Pathbench writes them: the fields in the order of their type, without white space, escapes and exponents.
//! They are read in a fraction of the time of `serde_json`, which reads all other lines and words their errors.

use crate::direction::Direction;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::net::SocketAddr;

/// The fields of a line from left to right.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    /// The byte before the next field.
    separator: u8,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { rest: line, separator: b'{' }
    }

    /// The field `name`, if it is the next one.
    #[inline]
    pub(crate) fn next<T: Field>(&mut self, name: &str) -> Option<T> {
        T::next(self, name)
    }

    /// Whether the line ends here.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.rest, b"}\n" | b"}")
    }

    /// Enters the value of the field `name`, if that is the next one.
    #[inline]
    fn enter(&mut self, name: &str) -> Option<()> {
        let rest = self.rest.strip_prefix(&[self.separator, b'"'])?;
        self.rest = rest.strip_prefix(name.as_bytes())?.strip_prefix(b"\":")?;
        self.separator = b',';
        Some(())
    }

    #[inline]
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        let rest = self.rest.strip_prefix(b"\"")?;
        let length = rest.iter().position(|&byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        self.rest = rest[length..].strip_prefix(b"\"")?;
        std::str::from_utf8(&rest[..length]).ok()
    }

    /// A value that is written as a text.
    #[inline]
    pub(crate) fn text_value<T: DeserializeOwned>(&mut self) -> Option<T> {
        let text: StrDeserializer<Error> = self.text()?.into_deserializer();
        T::deserialize(text).ok()
    }

    /// Digits without a leading zero, as JSON demands of the integer part of a number.
    #[inline]
    fn integer(&self) -> Option<usize> {
        let length = digits(self.rest);
        (length == 1 || length > 1 && self.rest[0] != b'0').then_some(length)
    }
}

#[inline]
fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The type of a field.
pub(crate) trait Field: Sized {
    fn value(fields: &mut Fields) -> Option<Self>;

    #[inline]
    fn next(fields: &mut Fields, name: &str) -> Option<Self> {
        fields.enter(name)?;
        Self::value(fields)
    }
}

/// Absent if `None`.
impl<T: Field> Field for Option<T> {
    fn value(fields: &mut Fields) -> Option<Self> {
        T::value(fields).map(Some)
    }

    #[inline]
    fn next(fields: &mut Fields, name: &str) -> Option<Self> {
        fields.enter(name).map_or(Some(None), |()| Self::value(fields))
    }
}

impl Field for u64 {
    #[inline]
    fn value(fields: &mut Fields) -> Option<Self> {
        // Longer ones can be too large.
        let length = fields.integer().filter(|length| *length < 20)?;
        Some(fields.take(length).iter().fold(0, |number, digit| number * 10 + Self::from(digit - b'0')))
    }
}

impl Field for u32 {
    #[inline]
    fn value(fields: &mut Fields) -> Option<Self> {
        u64::value(fields)?.try_into().ok()
    }
}

impl Field for f64 {
    fn value(fields: &mut Fields) -> Option<Self> {
        let mut whole = Fields { rest: fields.rest.strip_prefix(b"-").unwrap_or(fields.rest), ..*fields };
        let length = whole.integer()?;
        whole.take(length);
        if let Some(fraction) = whole.rest.strip_prefix(b".") {
            whole.rest = &fraction[digits(fraction)..];
        }
        let number = fields.take(fields.rest.len() - whole.rest.len());
        if number.ends_with(b".") {
            return None;
        }
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

impl Field for bool {
    fn value(fields: &mut Fields) -> Option<Self> {
        let is_true = fields.rest.starts_with(b"true");
        let rest = fields.rest.strip_prefix(if is_true { b"true".as_slice() } else { b"false" })?;
        fields.rest = rest;
        Some(is_true)
    }
}

macro_rules! text_fields {
    ($($type:ty),*) => {
        $(impl $crate::directory::Field for $type {
            #[inline]
            fn value(fields: &mut $crate::directory::Fields) -> Option<Self> {
                fields.text_value()
            }
        })*
    };
}
pub(crate) use text_fields;

text_fields!(String, SocketAddr, Direction);

#[cfg(test)]
mod tests {
    use crate::delivery::DeliveryLine;
    use crate::sample::Sample;

    const SAMPLE: &str = r#"{"run":"é","t_ms":-0.125,"host":"client","side":"client","stream":0,"path":"eth","subflow":1,"path_id":18446744073709551615,"local":"[fe80::1%2]:1","remote":"10.0.0.1:4433","state":"open","backup":true,"bytes_sent":14480,"packets_sent":10,"bytes_acked":0,"bytes_received":0,"retransmitted_bytes":0,"retransmitted_segments":0,"srtt_ms":20.135135135135137,"rttvar_ms":0.1,"rto_ms":220.0,"backoff":0,"cwnd_bytes":14480,"in_flight_bytes":0,"not_sent_bytes":0,"mss_bytes":1448,"pmtu_bytes":1500,"since_last_sent_ms":0,"since_last_received_ms":0}"#;

    #[test]
    fn a_line_as_written_has_the_same_record_by_either_reader() {
        // serde_json reads numbers of 20 digits.
        assert_eq!(Sample::written(SAMPLE.as_bytes()), None);
        let sample = SAMPLE.replace("18446744073709551615", "1844674407370955161");
        assert_eq!(Sample::written(sample.as_bytes()), serde_json::from_str(&sample).ok());
        assert!(Sample::written(sample.as_bytes()).is_some());
        let delivery = "{\"run\":\"r\",\"direction\":\"upload\",\"t_ms\":20,\"bytes\":9}\n";
        assert_eq!(DeliveryLine::written(delivery.as_bytes()), serde_json::from_str(delivery).ok());
        assert!(DeliveryLine::written(delivery.as_bytes()).is_some());
    }

    #[test]
    fn other_lines_are_left_to_serde_json() {
        let line = |run: &str, t_ms: &str, bytes: &str, end: &str| {
            format!(r#"{{"run":"{run}","direction":"upload","t_ms":{t_ms},"bytes":{bytes}{end}"#)
        };
        assert!(DeliveryLine::written(line("r", "1.5", "2", "}").as_bytes()).is_some());
        for t_ms in ["1.", ".5", "01", "1e3", "-", "", "null", "NaN", "+1", "1 "] {
            assert_eq!(DeliveryLine::written(line("r", t_ms, "2", "}").as_bytes()), None, "{t_ms}");
        }
        for bytes in ["1.5", "-1", "02", "99999999999999999999", " 1", "\"1\""] {
            assert_eq!(DeliveryLine::written(line("r", "1", bytes, "}").as_bytes()), None, "{bytes}");
        }
        for run in ["a\\n", "a\nb", "a\"b"] {
            assert_eq!(DeliveryLine::written(line(run, "1", "2", "}").as_bytes()), None, "{run}");
        }
        for end in ["", "} ", "}}", ",}", ",\"x\":1}", ",\"bytes\":2}"] {
            assert_eq!(DeliveryLine::written(line("r", "1", "2", end).as_bytes()), None, "{end}");
        }
        assert_eq!(DeliveryLine::written(br#"{"direction":"upload","run":"r","t_ms":1,"bytes":2}"#), None);
        assert_eq!(DeliveryLine::written(br#"{"run":"r","direction":"up","t_ms":1,"bytes":2}"#), None);
    }
}
