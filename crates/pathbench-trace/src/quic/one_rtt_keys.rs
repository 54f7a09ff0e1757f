//! Keys of 1-RTT packets and their updates.

use super::keys::{self, PacketKeys, Suite, Unprotected};

/// Keys of one end (RFC 9001, section 6).
#[derive(Debug)]
pub(super) struct OneRtt {
    suite: Suite,
    version: u32,
    secret: Vec<u8>,
    phase: bool,
    /// Its header protection outlives key updates.
    first: PacketKeys,
    current: PacketKeys,
    next: PacketKeys,
    previous: Option<PacketKeys>,
    pub(super) updates: u64,
}

impl OneRtt {
    pub(super) fn new(secret: &[u8], suite: Suite, version: u32) -> Option<Self> {
        let following = keys::next_secret(secret, suite, version)?;
        Some(Self {
            suite,
            version,
            phase: false,
            first: PacketKeys::new(secret, suite, version)?,
            current: PacketKeys::new(secret, suite, version)?,
            next: PacketKeys::new(&following, suite, version)?,
            previous: None,
            secret: following,
            updates: 0,
        })
    }

    pub(super) fn unprotect(
        &self,
        packet: &[u8],
        number_offset: usize,
        scratch: &mut Vec<u8>,
    ) -> Option<Unprotected> {
        scratch.clear();
        scratch.extend_from_slice(packet);
        self.first.unprotect(scratch, number_offset)
    }

    /// Decrypts a packet whose header protection was removed in `scratch`.
    pub(super) fn open(
        &mut self,
        header: usize,
        path: u32,
        number: u64,
        scratch: &mut [u8],
        copy: &mut Vec<u8>,
    ) -> Option<()> {
        let other_phase = scratch.first()? & 4 != 0;
        let mut attempt = |keys: &PacketKeys| {
            copy.clear();
            copy.extend_from_slice(scratch);
            let length = keys.open(copy, header, path, number)?.len();
            copy.drain(..header);
            copy.truncate(length);
            Some(())
        };
        if other_phase == self.phase {
            return attempt(&self.current);
        }
        if self.previous.as_ref().is_some_and(|keys| attempt(keys).is_some()) {
            return Some(());
        }
        attempt(&self.next)?;
        self.update()
    }

    fn update(&mut self) -> Option<()> {
        let following = keys::next_secret(&self.secret, self.suite, self.version)?;
        let next = PacketKeys::new(&following, self.suite, self.version)?;
        self.secret = following;
        let current = std::mem::replace(&mut self.next, next);
        self.previous = Some(std::mem::replace(&mut self.current, current));
        self.phase = !self.phase;
        self.updates += 1;
        Some(())
    }
}
