//! The kernel's protocol counters (MIB) of a network namespace: `MPTcpExt.MPJoinSynTx` and its kind.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Counters of a network namespace by name. From `netstat` and `snmp` they are called
/// `group.counter` (`MPTcpExt.MPCapableSYNTX`, `Tcp.RetransSegs`), from `snmp6` as there (`Ip6InReceives`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    values: BTreeMap<String, i64>,
}

/// The counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the kernel's counters from {}: {source}", path.display())]
pub struct CountersError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

impl Counters {
    /// All counters of the calling thread's network namespace.
    pub fn read() -> Result<Self, CountersError> {
        let read = |name: &str| {
            let path = PathBuf::from("/proc/thread-self/net").join(name);
            std::fs::read_to_string(&path).map_err(|source| CountersError { path, source })
        };
        let mut counters = Self::default();
        counters.take_table(&read("netstat")?);
        counters.take_table(&read("snmp")?);
        match read("snmp6") {
            Ok(text) => counters.take_list(&text),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(counters)
    }

    /// The value of one counter; `None` when this kernel does not have it.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied()
    }

    /// Names and values in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// What changed from `before` to `after`, and by how much.
    pub fn difference(before: &Self, after: &Self) -> BTreeMap<String, i64> {
        let changed = after.values.iter().filter_map(|(name, value)| {
            let change = value.wrapping_sub(before.get(name).unwrap_or(0));
            (change != 0).then(|| (name.clone(), change))
        });
        changed.collect()
    }

    fn take_table(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((same, values))) =
                (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if group != same {
                continue;
            }
            for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
                self.take(format!("{group}.{name}"), value);
            }
        }
    }

    fn take_list(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(name), Some(value)) = (words.next(), words.next()) {
                self.take(name.to_owned(), value);
            }
        }
    }

    /// Counters are unsigned 64-bit in some files; one that has passed `i64::MAX` goes on from `i64::MIN`.
    fn take(&mut self, name: String, value: &str) {
        let value = value.parse::<i64>().or_else(|_| value.parse::<u64>().map(|value| value as i64));
        if let Ok(value) = value {
            self.values.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Recorded on Linux 6.18, shortened.
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent TCPTimeouts TCPMTUPFail
TcpExt: 0 13 0
IpExt: InNoRoutes InOctets OutOctets
IpExt: 0 2317004 18446744073709551615
MPTcpExt: MPCapableSYNRX MPCapableSYNTX MPJoinSynTx
MPTcpExt: 3 4 2
";
    const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens
Tcp: 1 200 120000 -1 17
";
    const SNMP6: &str = "Ip6InReceives                   \t12\nIcmp6OutMsgs                    \t3\n";

    fn recorded() -> Counters {
        let mut counters = Counters::default();
        counters.take_table(NETSTAT);
        counters.take_table(SNMP);
        counters.take_list(SNMP6);
        counters
    }

    #[test]
    fn recorded_text() {
        let counters = recorded();
        assert_eq!(counters.get("MPTcpExt.MPJoinSynTx"), Some(2));
        assert_eq!(counters.get("Tcp.MaxConn"), Some(-1));
        assert_eq!(counters.get("IpExt.OutOctets"), Some(-1));
        assert_eq!(counters.get("Ip6InReceives"), Some(12));
        assert_eq!(counters.get("MPTcpExt.NoSuch"), None);
        assert_eq!(counters.iter().count(), 16);
    }

    #[test]
    fn only_what_changed() {
        let before = recorded();
        let mut after = recorded();
        after.take_table("MPTcpExt: MPJoinSynTx MPFailTx\nMPTcpExt: 5 1\n");
        let expected = [("MPTcpExt.MPFailTx".to_owned(), 1), ("MPTcpExt.MPJoinSynTx".to_owned(), 3)];
        assert_eq!(Counters::difference(&before, &after), BTreeMap::from(expected));
        assert!(Counters::difference(&after, &after).is_empty());
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            let mut counters = Counters::default();
            counters.take_table(&text);
            counters.take_list(&text);
        }
    }
}
