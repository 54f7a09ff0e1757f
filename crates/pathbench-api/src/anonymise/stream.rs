//! JSON that is anonymised while it is read: in memory there is one text at a time, never the document.

use super::Anonymiser;
use super::fields::{is_personal, is_personal_path};
use super::prefix::REMOVED;
use super::work::Work;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::{Read, Write};

/// The place of a value: below which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Any,
    Personal,
    /// The name of a test server, or an object with it.
    Server,
}

impl Anonymiser {
    /// Collects the personal names of a JSON document, as [`Self::learn`] does; until `work` is over.
    pub fn learn_json(&mut self, document: impl Read, work: &mut Work<'_>) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_reader(document);
        Learner { anonymiser: self, work, below: Below::Any }.deserialize(&mut deserializer)?;
        deserializer.end()
    }

    /// Writes a JSON document in its anonymous form; an error if `work` is over before.
    pub fn copy_json(
        &self,
        document: impl Read,
        out: &mut impl Write,
        work: &mut Work<'_>,
    ) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_reader(document);
        Copier { anonymiser: self, out, work, key: None }.deserialize(&mut deserializer)?;
        deserializer.end()
    }
}

struct Learner<'a, 'w> {
    anonymiser: &'a mut Anonymiser,
    work: &'a mut Work<'w>,
    below: Below,
}

impl<'w> Learner<'_, 'w> {
    fn nested(&mut self, below: Below) -> Learner<'_, 'w> {
        Learner { anonymiser: self.anonymiser, work: self.work, below }
    }

    fn count<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        if self.work.spend(bytes + 1) { Ok(()) } else { Err(E::custom("the work is over")) }
    }

    fn number<E: serde::de::Error>(mut self, number: &impl ToString) -> Result<(), E> {
        self.count(1)?;
        if self.below == Below::Personal {
            self.anonymiser.learn_number(&number.to_string());
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Learner<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Learner<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.count(1)
    }

    fn visit_bool<E: serde::de::Error>(mut self, _: bool) -> Result<(), E> {
        self.count(1)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.number(&number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.number(&number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.number(&number)
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.count(text.len())?;
        match self.below {
            Below::Any => self.anonymiser.learn_interfaces(text),
            Below::Personal => self.anonymiser.learn_name(text),
            Below::Server => {
                self.anonymiser.learn_server(text);
                self.anonymiser.learn_interfaces(text);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let below = self.below;
        while items.next_element_seed(self.nested(below))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            self.count(key.len())?;
            self.anonymiser.learn_interfaces(&key);
            let below = match (self.below, key.as_str()) {
                (Below::Personal, _) => Below::Personal,
                _ if is_personal(&key) => Below::Personal,
                (_, "server" | "servers") | (Below::Server, "name" | "address") => Below::Server,
                _ => Below::Any,
            };
            fields.next_value_seed(self.nested(below))?;
        }
        Ok(())
    }
}

struct Copier<'a, 'w, W> {
    anonymiser: &'a Anonymiser,
    out: &'a mut W,
    work: &'a mut Work<'w>,
    /// Of the field with this value.
    key: Option<&'a str>,
}

impl<'w, W: Write> Copier<'_, 'w, W> {
    fn write<E: serde::de::Error>(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), E> {
        if !self.work.spend(1) {
            return Err(E::custom("the work is over"));
        }
        serde_json::to_writer(&mut *self.out, value).map_err(E::custom)
    }

    fn punctuation<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        self.out.write_all(text.as_bytes()).map_err(E::custom)
    }

    fn nested<'b>(&'b mut self, key: Option<&'b str>) -> Copier<'b, 'w, W> {
        Copier { anonymiser: self.anonymiser, out: self.out, work: self.work, key }
    }

    fn is_personal(&self) -> bool {
        self.key.is_some_and(is_personal)
    }

    /// A value that is no text.
    fn value<E: serde::de::Error>(mut self, value: &impl Serialize) -> Result<(), E> {
        if self.is_personal() { self.write(REMOVED) } else { self.write(value) }
    }
}

impl<'de, W: Write> DeserializeSeed<'de> for Copier<'_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, W: Write> Visitor<'de> for Copier<'_, '_, W> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.write(&())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.value(&value)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.value(&number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.value(&number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.value(&number)
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        if self.is_personal() || self.key.is_some_and(|key| is_personal_path(key, text)) {
            return self.write(REMOVED);
        }
        let text = self.anonymiser.text_within(text, self.work);
        self.write(&text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if self.is_personal() {
            while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            return self.write(REMOVED);
        }
        self.punctuation("[")?;
        let mut separator = "";
        while items.next_element_seed(Separated { copier: self.nested(None), separator })?.is_some() {
            separator = ",";
        }
        self.punctuation("]")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        if self.is_personal() {
            while fields.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
            return self.write(REMOVED);
        }
        self.punctuation("{")?;
        let mut separator = "";
        while let Some(key) = fields.next_key::<String>()? {
            self.punctuation(separator)?;
            separator = ",";
            let anonymous = self.anonymiser.text_within(&key, self.work);
            self.write(&anonymous)?;
            self.punctuation(":")?;
            fields.next_value_seed(self.nested(Some(&key)))?;
        }
        self.punctuation("}")
    }
}

/// An item behind its separator.
struct Separated<'a, 'w, W> {
    copier: Copier<'a, 'w, W>,
    separator: &'static str,
}

impl<'de, W: Write> DeserializeSeed<'de> for Separated<'_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        self.copier.punctuation::<D::Error>(self.separator)?;
        deserializer.deserialize_any(self.copier)
    }
}
