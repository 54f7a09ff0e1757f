//! The search for all personal and all hidden names of a result at once (Aho and Corasick, 1975): its time is linear in
//! the text.

use super::address::plain;
use super::prefix::REMOVED;
use super::work::Work;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The names of a result, and [`REMOVED`] itself, which stays.
#[derive(Debug, Clone)]
pub(super) struct NameSearch(AhoCorasick);

impl NameSearch {
    /// The search for `names`, which are folded. `None` if there are none.
    pub(super) fn new(names: &BTreeSet<String>) -> Option<Self> {
        if names.is_empty() {
            return None;
        }
        let patterns = names.iter().map(String::as_str).chain([REMOVED]);
        // A DFA of the longest names would take megabytes.
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns);
        // Fails only beyond 2^31 states.
        built.ok().map(Self)
    }

    /// The longest name at each index becomes [`REMOVED`]; `REMOVED` itself stays.
    pub(super) fn removed_from<'a>(&self, text: &'a str, work: &mut Work<'_>) -> Cow<'a, str> {
        /// Bytes between two counts of the work.
        const PART: usize = 1 << 16;
        let (folded, offsets) = folded(text);
        if !work.spend(folded.len().min(PART)) {
            return Cow::Borrowed(REMOVED);
        }
        let original = |at: usize| offsets.as_ref().map_or(at, |offsets| offsets[at] as usize);
        let mut out = String::new();
        let (mut copied, mut counted) = (0, PART);
        for found in self.0.find_iter(&*folded) {
            while counted < found.end() {
                counted += PART;
                if !work.spend(PART) {
                    return Cow::Borrowed(REMOVED);
                }
            }
            out.push_str(&text[copied..original(found.start())]);
            out.push_str(REMOVED);
            copied = original(found.end());
        }
        // Without a match nothing was counted since the first part.
        work.spend(folded.len().saturating_sub(counted));
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

/// `text` in lower case with plain digits and letters, and the offset in `text` of each byte; absent if they are the same.
pub(super) fn folded(text: &str) -> (Cow<'_, str>, Option<Vec<u32>>) {
    if text.is_ascii() {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let folded = if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
        return (folded, None);
    }
    let (mut folded, mut offsets) = (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    for (at, character) in text.char_indices() {
        for lower in plain(character).to_lowercase() {
            folded.push(lower);
            offsets.resize(folded.len(), u32::try_from(at).unwrap_or(u32::MAX));
        }
    }
    offsets.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
    (Cow::Owned(folded), Some(offsets))
}

/// The hidden names of a result, of which only whole words go: they are chosen by people, and part of other words.
#[derive(Debug, Clone)]
pub(super) struct WordSearch(AhoCorasick);

impl WordSearch {
    /// The search for `words`, which are folded. `None` if there are none.
    pub(super) fn new(words: &BTreeSet<String>) -> Option<Self> {
        if words.is_empty() {
            return None;
        }
        let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).build(words);
        // Fails only beyond 2^31 states.
        built.ok().map(Self)
    }

    /// Each word, and words that overlap together, become [`REMOVED`].
    pub(super) fn removed_from<'a>(&self, text: &'a str, work: &mut Work<'_>) -> Cow<'a, str> {
        let (folded, offsets) = folded(text);
        if !work.spend(folded.len()) {
            return Cow::Borrowed(REMOVED);
        }
        // By their ends, and none overlaps another.
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for found in self.0.find_overlapping_iter(&*folded) {
            if !work.spend(1) {
                return Cow::Borrowed(REMOVED);
            }
            let mut start = found.start();
            if !is_whole(&folded, (start, found.end())) {
                continue;
            }
            while let Some((earlier, _)) = spans.pop_if(|(_, end)| *end > start) {
                start = start.min(earlier);
            }
            spans.push((start, found.end()));
        }
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let original = |at: usize| offsets.as_ref().map_or(at, |offsets| offsets[at] as usize);
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (start, end) in spans {
            out.push_str(&text[copied..original(start)]);
            out.push_str(REMOVED);
            copied = original(end);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

/// Whether no word goes on beyond the ends of a span. Scripts without spaces have no such ends.
fn is_whole(text: &str, (start, end): (usize, usize)) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let goes_on = |inner: usize, outer: Option<usize>| {
        is_part(bytes.get(inner)) && is_part(outer.and_then(|outer| bytes.get(outer)))
    };
    !goes_on(start, start.checked_sub(1)) && !goes_on(end.saturating_sub(1), Some(end))
}
