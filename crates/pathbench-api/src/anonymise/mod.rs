//! The anonymous form of a result: what everybody may read of it.
//!
//! The anonymiser works on the text of every string, keys included, because addresses are not only in fields for addresses: events,
//! notes, error messages and traces hold them too. IPv4 addresses become their /24 and IPv6 addresses their /48; a
//! prefix may still identify a household, which `GET /v1/privacy` says. Names of Wi-Fi networks and link-layer addresses
//! go, wherever the same result repeats them; of an interface that is named by its address the kind stays. Applying it
//! twice changes nothing more.

mod address;

pub use address::REMOVED;

use crate::name::Name;
use crate::summary::Summary;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Fields whose value identifies a person, a place or a device; it is removed, here and in every other text.
const PERSONAL: [&str; 14] = [
    "ssid",
    "bssid",
    "mac",
    "hostname",
    "host_name",
    "node",
    "latitude",
    "longitude",
    "position",
    "location",
    "imei",
    "imsi",
    "iccid",
    "user",
];

/// Shorter texts are removed from their field only: they are part of too many words.
const SHORTEST_REPEATED: usize = 3;

/// Distinct personal names of one result. A host sees a few dozen networks in a run; thousands are made to keep the
/// collector busy.
pub const MOST_NAMES: usize = 1_000;

/// A number as an identity (IMEI, IMSI) has more digits than a figure.
const SHORTEST_NUMBER: usize = 8;

/// Anonymises the documents of one result. Names that one of them holds are removed from all.
#[derive(Debug, Clone, Default)]
pub struct Anonymiser {
    names: BTreeSet<String>,
    /// Named by their link-layer address.
    interfaces: BTreeSet<String>,
    is_full: bool,
}

impl Anonymiser {
    /// Collects the personal names in `value`. Do this for all documents of a result first.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_interfaces(text),
            Value::Object(object) => {
                for (key, value) in object {
                    self.learn_interfaces(key);
                    if is_personal(key) { self.learn_all(value) } else { self.learn(value) }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// The names of interfaces in `text`, so that they stay distinct.
    pub fn learn_interfaces(&mut self, text: &str) {
        for name in address::interfaces(text) {
            if self.interfaces.len() < MOST_NAMES && !self.interfaces.contains(name) {
                self.interfaces.insert(name.to_owned());
            }
        }
    }

    /// `None` for the first one and for unknown ones.
    fn interface_number(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|one| one == name).filter(|index| *index > 0).map(|index| index + 1)
    }

    /// Every text below a personal field.
    fn learn_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_name(text),
            Value::Number(number) => {
                let text = number.to_string();
                if text.len() >= SHORTEST_NUMBER {
                    self.learn_name(&text);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_all(item)),
            Value::Object(object) => object.values().for_each(|value| self.learn_all(value)),
            _ => {}
        }
    }

    pub fn learn_name(&mut self, name: &str) {
        // `/24` is part of every anonymous form.
        let is_prefix = name.contains('/')
            && name.chars().all(|one| one.is_ascii_hexdigit() || matches!(one, '/' | '.' | ':'));
        let name = visible(name);
        if name.chars().count() < SHORTEST_REPEATED || is_prefix || REMOVED.contains(&*name) {
            return;
        }
        if self.names.len() < MOST_NAMES {
            self.names.insert(name.into_owned());
        } else {
            self.is_full |= !self.names.contains(&*name);
        }
    }

    /// Whether there were more names than [`MOST_NAMES`]: the documents cannot be anonymised.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    pub fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let anonymous = self.text(text);
                *text = anonymous;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(object) => {
                let fields = std::mem::take(object);
                *object =
                    fields.into_iter().map(|(key, value)| self.field(&key, value)).collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn field(&self, key: &str, mut value: Value) -> (String, Value) {
        if is_personal(key) && !value.is_null() {
            value = Value::String(REMOVED.to_owned());
        } else {
            self.apply(&mut value);
        }
        (self.text(key), value)
    }

    /// `text` without personal names and with prefixes instead of addresses.
    pub fn text(&self, text: &str) -> String {
        settled(text, |text| {
            let plain = self.without_names(&visible(text));
            address::replaced(&plain, |name| self.interface_number(name))
        })
    }

    /// The longest name at each place becomes [`REMOVED`]; `REMOVED` itself stays.
    fn without_names(&self, text: &str) -> String {
        if self.names.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let kept = if rest.starts_with(REMOVED) { REMOVED.len() } else { 0 };
            // Names with this first character, the longest of them last.
            let from = first.to_string();
            let names = self.names.range(from..).take_while(|name| name.starts_with(first));
            let found = names.filter(|name| rest.starts_with(name.as_str())).map(String::len).max();
            if let Some(length) = found.filter(|length| *length > kept) {
                out.push_str(REMOVED);
                rest = &rest[length..];
            } else {
                let length = kept.max(first.len_utf8());
                out.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
        out
    }

    pub fn name(&self, name: &mut Name) {
        let anonymous = self.text(name.as_str());
        if anonymous != name.as_str() {
            *name = Name::nearest(&anonymous);
        }
    }

    pub fn summary(&self, summary: &mut Summary) {
        let name = |name: &mut Name| self.name(name);
        for one in [&mut summary.scenario, &mut summary.version, &mut summary.kernel, &mut summary.machine] {
            name(one);
        }
        summary.server.iter_mut().chain(summary.experiment.iter_mut()).for_each(name);
        for network in &mut summary.networks {
            name(&mut network.path);
            network.operator.iter_mut().chain(network.prefix.iter_mut()).for_each(name);
        }
        for group in &mut summary.groups {
            name(&mut group.label);
            name(&mut group.pattern);
            group.variant.iter_mut().for_each(name);
            for map in [&mut group.figures, &mut group.shares] {
                let entries = std::mem::take(map).into_iter();
                *map = entries
                    .map(|(mut key, value)| {
                        name(&mut key);
                        (key, value)
                    })
                    .collect();
            }
        }
    }
}

/// Prefixes instead of all addresses in `text`, IP and link-layer.
///
/// Digits of other scripts count as digits: `１９２.０.２.７` is an address to a reader.
pub fn addresses(text: &str) -> String {
    settled(text, |text| address::replaced(text, |_| None))
}

/// `text` after as many passes as change it, so that what is anonymous stays as it is: a name can be part of an anonymous
/// form (`2.0` of 192.0.2.0/24), and a prefix and the text beside it can look like another address. A text that does not
/// come to an end is removed as a whole.
fn settled(text: &str, pass: impl Fn(&str) -> String) -> String {
    // More than any text needs that is not made to need them.
    const PASSES: usize = 8;
    let mut before = text.to_owned();
    for _ in 0..PASSES {
        let after = pass(&before);
        if after == before {
            return after;
        }
        before = after;
    }
    REMOVED.to_owned()
}

fn is_personal(key: &str) -> bool {
    PERSONAL.iter().any(|personal| key.eq_ignore_ascii_case(personal))
}

/// Without characters that no reader sees, which could hide an address or a name from the search.
fn visible(text: &str) -> Cow<'_, str> {
    let is_invisible = |one: char| matches!(one, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    if text.contains(is_invisible) { text.replace(is_invisible, "").into() } else { text.into() }
}
