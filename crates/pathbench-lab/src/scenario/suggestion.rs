//! "Did you mean": the known name nearest to one that is not known.

pub(super) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let tolerated = 1 + given.chars().count() / 4;
    let distance = |name: &str| strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase());
    known
        .iter()
        .map(|name| (distance(name), *name))
        .filter(|(distance, name)| *distance <= tolerated && *distance < name.chars().count())
        // Of equally near ones, the one that needs no letter taken away.
        .min_by_key(|(distance, name)| (*distance, given.len().saturating_sub(name.len())))
        .map(|(_, name)| name)
}

/// A remedy: the nearest of the known names, and all of them.
pub(super) fn choices(given: &str, known: &[&str]) -> String {
    let list = match known {
        [] => return "there are none".to_owned(),
        [only] => format!("the only one is {only}"),
        many => format!("known are {}", many.join(", ")),
    };
    match nearest(given, known) {
        Some(name) => format!("did you mean `{name}`? {list}"),
        None => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["rate", "delay", "mtu", "queue"];
        assert_eq!(nearest("dealy", &known), Some("delay"));
        assert_eq!(nearest("RATE", &known), Some("rate"));
        assert_eq!(nearest("ratee", &known), Some("rate"));
        assert_eq!(nearest("latency", &known), None);
        assert_eq!(nearest("x", &["y"]), None);
        assert_eq!(choices("mtuu", &known), "did you mean `mtu`? known are rate, delay, mtu, queue");
        assert_eq!(choices("a", &[]), "there are none");
    }
}
