//! Decisions out of bytes, 0 where there are none left, and documents that they change: what stays right leads deep into
//! the documents' reader.

use serde_json::Value;

/// The unread part of an input.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// One of `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let (high, low) = if count > 256 { (self.byte(), self.byte()) } else { (0, self.byte()) };
        (usize::from(high) << 8 | usize::from(low)) % count.max(1)
    }

    /// A number near the ends of its range as often as within.
    pub(crate) fn number(&mut self) -> u64 {
        let offset = u64::from(self.byte());
        match self.byte() % 8 {
            0 => offset,
            1 => offset << 10,
            2 => offset << 24,
            3 => offset << 40,
            4 => (1 << 55) + offset,
            5 => (1 << 63) - offset,
            6 => u64::MAX - offset,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Changes some fields of a document, as the input says.
pub(crate) fn changed(input: &mut Input<'_>, mut document: Value) -> Value {
    for _ in 0..input.below(5) {
        let nodes = count(&document);
        let mut at = input.below(nodes);
        change(&mut document, &mut at, input);
    }
    document
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the `at`-th node; true once that is done.
pub(crate) fn change(value: &mut Value, at: &mut usize, input: &mut Input<'_>) -> bool {
    if *at == 0 {
        change_node(value, input);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| change(item, at, input)),
        Value::Object(fields) => fields.values_mut().any(|field| change(field, at, input)),
        _ => false,
    }
}

fn change_node(value: &mut Value, input: &mut Input<'_>) {
    let before = value.take();
    *value = match input.byte() % 12 {
        0 | 1 => input.number().into(),
        2 => Value::from(-(input.number() as f64)),
        3 => Value::from(f64::from_bits(input.number())),
        4 => Value::Null,
        5 => Value::String(String::from_utf8_lossy(input.bytes(12)).into_owned()),
        6 => Value::String("\u{1b}".repeat(input.below(3000))),
        7 => Value::Array(vec![before; input.below(20)]),
        8 => Value::Bool(input.byte().is_multiple_of(2)),
        // More of the same, fewer, or in another order.
        9 | 10 => match before {
            Value::Array(mut items) => {
                let more = items.clone();
                (0..input.below(40)).for_each(|_| items.extend(more.iter().take(50).cloned()));
                let first = input.below(3).min(items.len());
                items.rotate_left(first);
                items.into()
            }
            Value::Number(number) => {
                number.as_u64().map_or(Value::Null, |number| number.wrapping_add(input.number()).into())
            }
            other => other,
        },
        _ => match before {
            Value::Object(mut fields) => {
                let key = fields.keys().nth(input.below(fields.len())).cloned();
                key.and_then(|key| fields.remove(&key));
                fields.into()
            }
            Value::Array(mut items) => items.pop().unwrap_or_default(),
            _ => Value::Object(serde_json::Map::new()),
        },
    };
}
