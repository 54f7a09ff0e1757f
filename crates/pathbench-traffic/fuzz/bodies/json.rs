//! Documents with some places changed: what stays right leads deep into their reader.

use super::input::Input;
use serde_json::Value;

/// Changes some places of a document, as the input says.
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
