//! The anonymous form of a result: what everybody may read of it.
//!
//! The anonymiser works on the text of every string, keys included, because addresses are not only in fields for addresses: events,
//! notes, error messages and traces hold them too. IPv4 addresses become their /24 and IPv6 addresses their /48, in many
//! spellings; a prefix may still identify a household, which `GET /v1/privacy` says. Names of Wi-Fi networks, link-layer
//! addresses, names of hosts and home directories go, wherever the same result repeats them; of an interface that is named
//! by its address the kind stays. Applying it twice changes nothing more.
//!
//! The time is linear in the text, independent of the names; [`Work`] bounds it.

mod address;
mod fields;
mod host;
mod names;
mod prefix;
mod spelling;
mod stream;
mod work;

pub use host::{host_part, is_address, is_generic};
pub use prefix::REMOVED;
pub use work::Work;

use crate::name::Name;
use crate::summary::Summary;
use fields::{is_personal, is_personal_path};
use names::{NameSearch, WordSearch};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// Shorter hidden names stay in texts: they are words of many languages.
const SHORTEST_HIDDEN: usize = 2;

/// Shorter texts are removed from their field only: they are part of too many words.
const SHORTEST_REPEATED: usize = 3;

/// Distinct personal names of one result. A host sees a few dozen networks in a run; thousands are made to keep the
/// collector busy.
pub const MOST_NAMES: usize = 1_000;

/// Bytes of all personal names of one result.
const MOST_NAME_BYTES: usize = 64 << 10;

/// A longer text is removed as a whole.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// A number as an identity (IMEI, IMSI) has more digits than a figure.
const SHORTEST_NUMBER: usize = 8;

/// Anonymises the documents of one result. Names that one of them holds are removed from all.
#[derive(Debug, Clone, Default)]
pub struct Anonymiser {
    names: BTreeSet<String>,
    name_bytes: usize,
    /// Hidden for this answer, as whole words.
    hidden: BTreeSet<String>,
    /// The names of servers that are public; without it, those of all test servers.
    public_servers: Option<BTreeSet<String>>,
    /// Named by their link-layer address.
    interfaces: BTreeSet<String>,
    /// Names of the test servers of the result, in lower case: they stay.
    servers: BTreeSet<String>,
    is_full: bool,
    compiled: OnceLock<Compiled>,
}

/// The names in the form for a search.
#[derive(Debug, Clone)]
struct Compiled {
    names: Option<NameSearch>,
    hidden: Option<WordSearch>,
    /// The numbers of the interfaces, from the second one on.
    numbers: HashMap<String, usize>,
}

impl Anonymiser {
    /// An anonymiser that hides the names of all test servers but these.
    pub fn with_public_servers(names: impl IntoIterator<Item = String>) -> Self {
        let public_servers = names.into_iter().map(|name| host::normal(&name)).collect();
        Self { public_servers: Some(public_servers), ..Self::default() }
    }

    /// Collects the personal names in `value`. Do this for all documents of a result first.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_interfaces(text),
            Value::Object(object) => {
                for (key, value) in object {
                    self.learn_interfaces(key);
                    if is_personal(key) {
                        self.learn_all(value);
                        continue;
                    }
                    if matches!(key.as_str(), "server" | "servers") {
                        self.learn_servers(value);
                    }
                    self.learn(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// The names of interfaces in `text`, so that they stay distinct.
    pub fn learn_interfaces(&mut self, text: &str) {
        for name in address::interfaces(text) {
            if self.interfaces.len() < MOST_NAMES && self.interfaces.insert(name) {
                self.compiled = OnceLock::new();
            }
        }
    }

    /// The names of test servers, which are public.
    fn learn_servers(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_server(text),
            Value::Array(items) => items.iter().for_each(|item| self.learn_servers(item)),
            Value::Object(object) => {
                let named = ["name", "address"].into_iter().filter_map(|key| object.get(key)?.as_str());
                named.for_each(|name| self.learn_server(name));
            }
            _ => {}
        }
    }

    /// The name of a test server, with or without a port: it is public, unless only few people know it.
    pub fn learn_server(&mut self, name: &str) {
        let given = name;
        let name = host::normal(name);
        if self.public_servers.as_ref().is_some_and(|public| !public.contains(&name)) {
            self.hide(given);
            self.hide(&name);
            return;
        }
        if self.servers.len() < MOST_NAMES && name.len() <= host::LONGEST {
            self.servers.insert(name);
        }
    }

    /// A number in a personal field.
    fn learn_number(&mut self, number: &str) {
        if number.len() >= SHORTEST_NUMBER {
            self.learn_name(number);
        }
    }

    /// Every text below a personal field.
    fn learn_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_name(text),
            Value::Number(number) => self.learn_number(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.learn_all(item)),
            Value::Object(object) => object.values().for_each(|value| self.learn_all(value)),
            _ => {}
        }
    }

    /// A personal name; the case of its letters does not matter.
    pub fn learn_name(&mut self, name: &str) {
        // `/24` is part of every anonymous form.
        let is_prefix = name.contains('/')
            && name.chars().all(|one| one.is_ascii_hexdigit() || matches!(one, '/' | '.' | ':'));
        let name = visible(name);
        let name = names::folded(&name).0;
        if name.chars().count() < SHORTEST_REPEATED || is_prefix || REMOVED.contains(&*name) {
            return;
        }
        self.remember(|all| &mut all.names, &name);
    }

    /// Adds a folded name to a set, within the bounds that all sets share.
    fn remember(&mut self, set: fn(&mut Self) -> &mut BTreeSet<String>, name: &str) {
        if set(self).contains(name) {
            return;
        }
        if set(self).len() < MOST_NAMES && self.name_bytes + name.len() <= MOST_NAME_BYTES {
            self.name_bytes += name.len();
            set(self).insert(name.to_owned());
            self.compiled = OnceLock::new();
        } else {
            self.is_full = true;
        }
    }

    /// The name of an operator or a server that is hidden from the reader of this answer: it goes wherever it is a word.
    pub fn hide(&mut self, name: &str) {
        let name = visible(name);
        let name = names::folded(&name).0;
        let name = name.trim();
        // Addresses are cut anyway; as words they would take their prefixes with them.
        let is_left = name.chars().count() < SHORTEST_HIDDEN
            || is_generic(name)
            || is_address(name)
            || REMOVED.contains(name);
        if !is_left {
            self.remember(|all| &mut all.hidden, name);
        }
    }

    /// Whether there were more names than [`MOST_NAMES`], or longer ones: the documents cannot be anonymised.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled {
            names: NameSearch::new(&self.names),
            hidden: WordSearch::new(&self.hidden),
            numbers: self.interfaces.iter().cloned().zip(1..).skip(1).collect(),
        })
    }

    pub fn apply(&self, value: &mut Value) {
        self.apply_within(value, &mut Work::unlimited());
    }

    /// After the end of `work` every text is removed.
    pub fn apply_within(&self, value: &mut Value, work: &mut Work<'_>) {
        match value {
            Value::String(text) => {
                let anonymous = self.text_within(text, work);
                *text = anonymous;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_within(item, work)),
            Value::Object(object) => {
                let fields = std::mem::take(object);
                *object = fields
                    .into_iter()
                    .map(|(key, value)| self.field(&key, value, work))
                    .collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn field(&self, key: &str, mut value: Value, work: &mut Work<'_>) -> (String, Value) {
        let is_path = value.as_str().is_some_and(|value| is_personal_path(key, value));
        if is_path || is_personal(key) && !value.is_null() {
            value = Value::String(REMOVED.to_owned());
        } else {
            self.apply_within(&mut value, work);
        }
        (self.text_within(key, work), value)
    }

    /// `text` without personal names and with prefixes instead of addresses.
    pub fn text(&self, text: &str) -> String {
        self.text_within(text, &mut Work::unlimited())
    }

    /// The same within a bound; after the end of `work` every text is [`REMOVED`].
    pub fn text_within(&self, text: &str, work: &mut Work<'_>) -> String {
        if text.len() > MOST_TEXT_BYTES {
            return REMOVED.to_owned();
        }
        let compiled = self.compiled();
        if compiled.names.is_none() && compiled.hidden.is_none() && !address::is_possible_in(text) {
            return if work.spend(text.len()) { text.to_owned() } else { REMOVED.to_owned() };
        }
        settled(text, work, |text, work| {
            let text = visible(text);
            let text = match &compiled.names {
                Some(names) => names.removed_from(&text, work),
                None => text,
            };
            let text = host::removed(&text, &self.servers, work);
            let text = match &compiled.hidden {
                Some(hidden) => hidden.removed_from(&text, work),
                None => Cow::Owned(text),
            };
            address::replaced(&text, |name| compiled.numbers.get(name).copied(), work)
        })
    }

    pub fn name(&self, name: &mut Name) {
        let anonymous = self.text(name.as_str());
        if anonymous != name.as_str() {
            *name = Name::nearest(&anonymous);
        }
    }

    /// The name of a test server, which is public, without addresses and personal names.
    pub fn server_name(&self, name: &mut Name) {
        let mut own = self.clone();
        own.learn_server(name.as_str());
        own.name(name);
    }

    pub fn summary(&self, summary: &mut Summary) {
        let name = |name: &mut Name| self.name(name);
        for one in [&mut summary.scenario, &mut summary.version, &mut summary.kernel, &mut summary.machine] {
            name(one);
        }
        summary.experiment.iter_mut().for_each(name);
        summary.server.iter_mut().for_each(|server| self.server_name(server));
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
    settled(text, &mut Work::unlimited(), |text, work| address::replaced(&visible(text), |_| None, work))
}

/// `text` after as many passes as change it, so that what is anonymous stays as it is: a name can be part of an anonymous
/// form (`2.0` of 192.0.2.0/24), and a prefix and the text beside it can look like another address. A text that does not
/// come to an end is removed as a whole.
fn settled(text: &str, work: &mut Work<'_>, pass: impl Fn(&str, &mut Work<'_>) -> String) -> String {
    // More than any text needs that is not made to need them.
    const PASSES: usize = 8;
    let mut before = text.to_owned();
    for _ in 0..PASSES {
        let after = pass(&before, work);
        if work.is_over() {
            break;
        }
        if after == before {
            return after;
        }
        before = after;
    }
    REMOVED.to_owned()
}

/// The text as a reader sees it: without invisible characters, and with those that are percent-encoded (RFC 3986, section
/// 2.1), however often. Both could hide an address or a name from the search, and the digits of a code that is left would
/// be read as part of another address. What would add a digit to an IPv6 address is its zone (RFC 4007, section 11).
fn visible(text: &str) -> Cow<'_, str> {
    let is_invisible = |one: char| matches!(one, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    if !text.contains(|one| is_invisible(one) || address::plain(one) == '%') {
        return text.into();
    }
    let mut shown = Vec::with_capacity(text.len());
    // The first character behind the last one that was encoded.
    let mut literal = 0;
    for one in text.chars().filter(|one| !is_invisible(*one)) {
        shown.push(one);
        while let Some(decoded) = percent_encoded(&shown) {
            let before = shown.len() - 3;
            // Digits of this code may have been encoded.
            literal = literal.min(before);
            if decoded.is_ascii_hexdigit() && address::ends_with_ipv6(&shown[literal..before]) {
                break;
            }
            shown.truncate(before);
            shown.push(decoded);
            if decoded != '%' {
                literal = shown.len();
            }
        }
    }
    shown.into_iter().collect::<String>().into()
}

/// The printable ASCII character that `%XX` at the end of `shown` stands for.
fn percent_encoded(shown: &[char]) -> Option<char> {
    let [.., percent, high, low] = shown else { return None };
    if address::plain(*percent) != '%' {
        return None;
    }
    let digit = |one: &char| address::plain(*one).to_digit(16);
    char::from_u32(digit(high)? << 4 | digit(low)?).filter(|one| matches!(one, ' '..='~'))
}
