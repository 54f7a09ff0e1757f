//! Facts as bytes: a version, then fields of fixed order with counted lists. Every list and name is bounded, so the
//! facts of a result have at most a few kilobytes, usually 200 bytes.

use super::bucket::Bucket;
use super::layout::{
    FactNames, Facts, FamilyFact, Handover, MODES, MOST_NETWORKS, PairFact, REASONS, SecondPath,
    reachability_bits, transport_number,
};
use super::source::Source;
use pathbench_api::bounds::{ITEMS, NAME_BYTES};
use pathbench_api::submission::Checked;
use pathbench_api::summary::Mode;
use pathbench_record::direction::Direction;
use pathbench_record::transport::Transport;
use thiserror::Error;

const VERSION: u8 = 2;
/// Its gains compare with the best of the paths that happened to be measured; they are not read.
const WITHOUT_SECOND_PATH: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FactsError {
    #[error("facts of version {found}; this collector reads version {VERSION}")]
    Version { found: u8 },
    #[error("facts of version {VERSION} end early or hold a value out of range")]
    Malformed,
}

pub fn encode(checked: &Checked, source: Source) -> Vec<u8> {
    let facts = Facts::from_summary(&checked.submission.summary, checked.submission.consent);
    let mut out = vec![VERSION, mode_number(facts.mode), facts.kinds, facts.transports];
    out.extend(facts.started_ms.to_le_bytes());
    for name in [&facts.names.server, &facts.names.experiment, &facts.names.scenario, &facts.names.kernel] {
        write_name(&mut out, name);
    }
    write_list(&mut out, &facts.names.operators, MOST_NETWORKS, |out, name| write_name(out, name));
    write_list(&mut out, &facts.networks, MOST_NETWORKS, |out, hash| out.extend(hash.to_le_bytes()));
    for table in [&facts.figures[..], &facts.gains[..]] {
        let present: Vec<usize> = (0..table.len()).filter(|index| table[*index].is_present()).collect();
        write_list(&mut out, &present, table.len(), |out, index| {
            out.push(*index as u8);
            out.extend(table[*index].0.to_le_bytes());
        });
    }
    out.extend(facts.reachability.to_le_bytes());
    write_list(&mut out, &facts.handovers, ITEMS, |out, one| {
        let reason = REASONS.iter().position(|reason| *reason == one.reason).unwrap_or(REASONS.len() - 1);
        write_pair(out, transport_number(one.transport) << 4 | reason as u8, one.sent, one.received);
    });
    write_list(&mut out, &facts.delay_pairs, ITEMS, |out, one| {
        write_pair(out, u8::from(one.direction == Direction::Download), one.mptcp, one.mpquic);
    });
    write_list(&mut out, &facts.family_pairs, ITEMS, |out, one| {
        write_pair(out, transport_number(one.transport), one.ipv4, one.ipv6);
    });
    out.extend(source.0.to_le_bytes());
    out.extend([facts.second_path.measured, facts.second_path.used]);
    out
}

fn write_list<T>(out: &mut Vec<u8>, items: &[T], most: usize, write: impl Fn(&mut Vec<u8>, &T)) {
    let items = &items[..items.len().min(most)];
    out.push(items.len() as u8);
    for item in items {
        write(out, item);
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    let end = (0..=name.len().min(NAME_BYTES)).rev().find(|end| name.is_char_boundary(*end));
    let name = &name[..end.unwrap_or(0)];
    out.push(name.len() as u8);
    out.extend(name.as_bytes());
}

fn write_pair(out: &mut Vec<u8>, key: u8, one: Bucket, other: Bucket) {
    out.push(key);
    out.extend(one.0.to_le_bytes());
    out.extend(other.0.to_le_bytes());
}

fn mode_number(mode: Mode) -> u8 {
    MODES.iter().position(|one| *one == mode).unwrap_or(MODES.len() - 1) as u8
}

pub fn decode(bytes: &[u8]) -> Result<Facts, FactsError> {
    match bytes.first() {
        Some(&version) if matches!(version, WITHOUT_SECOND_PATH | VERSION) => {
            Cursor { rest: &bytes[1..] }.facts(version).ok_or(FactsError::Malformed)
        }
        Some(&found) => Err(FactsError::Version { found }),
        None => Err(FactsError::Malformed),
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn facts(mut self, version: u8) -> Option<Facts> {
        let mode = *MODES.get(usize::from(self.byte()?))?;
        let mut facts = Facts { mode, kinds: self.byte()?, transports: self.byte()?, ..Facts::default() };
        facts.started_ms = u64::from_le_bytes(self.array()?);
        facts.names = FactNames {
            server: self.name()?,
            experiment: self.name()?,
            scenario: self.name()?,
            kernel: self.name()?,
            operators: self.list(MOST_NETWORKS, Self::name)?,
        };
        facts.networks = self.list(MOST_NETWORKS, |cursor| cursor.array().map(u64::from_le_bytes))?;
        self.table(&mut facts.figures)?;
        self.table(&mut facts.gains)?;
        facts.reachability = reachability_bits(u32::from_le_bytes(self.array()?));
        facts.handovers = self.list(ITEMS, |cursor| {
            let (key, sent, received) = cursor.pair()?;
            let reason = *REASONS.get(usize::from(key & 15))?;
            Some(Handover { transport: transport(key >> 4)?, reason, sent, received })
        })?;
        facts.delay_pairs = self.list(ITEMS, |cursor| {
            let (key, mptcp, mpquic) = cursor.pair()?;
            Some(PairFact { direction: *Direction::BOTH.get(usize::from(key))?, mptcp, mpquic })
        })?;
        facts.family_pairs = self.list(ITEMS, |cursor| {
            let (key, ipv4, ipv6) = cursor.pair()?;
            Some(FamilyFact { transport: transport(key)?, ipv4, ipv6 })
        })?;
        // Earlier collectors kept none: their results count as those of one source.
        if !self.rest.is_empty() {
            facts.source = u64::from_le_bytes(self.array()?);
        }
        if version == WITHOUT_SECOND_PATH {
            facts.gains = Facts::default().gains;
            facts.second_path = SecondPath::from_figures(&facts);
        } else {
            facts.second_path = SecondPath { measured: self.byte()?, used: self.byte()? };
        }
        self.rest.is_empty().then_some(facts)
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn bucket(&mut self) -> Option<Bucket> {
        self.array().map(u16::from_le_bytes).map(Bucket::read)
    }

    fn pair(&mut self) -> Option<(u8, Bucket, Bucket)> {
        Some((self.byte()?, self.bucket()?, self.bucket()?))
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::from(self.byte()?);
        let name = self.take(length).filter(|_| length <= NAME_BYTES)?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    }

    fn list<T>(&mut self, most: usize, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::from(self.byte()?);
        (count <= most).then(|| (0..count).map(|_| read(self)).collect())?
    }

    fn table(&mut self, table: &mut [Bucket]) -> Option<()> {
        for _ in 0..self.byte()? {
            let entry = table.get_mut(usize::from(self.byte()?))?;
            *entry = self.bucket()?;
        }
        Some(())
    }
}

fn transport(number: u8) -> Option<Transport> {
    Transport::ALL.get(usize::from(number)).copied()
}
