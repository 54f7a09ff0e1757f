//! Which packet sizes pass, on a link that may also lose packets for other reasons.

use pathbench_record::direction::Direction;

/// A size is taken not to pass when so many small packets came back, each sent right behind a probe of the size, and
/// none of the probes did. At 10 % of loss both ways together, chance does that once in a million cases.
const WITNESSES: usize = 6;

/// Attempts before it is said that nothing can be said.
pub(super) const MOST_ATTEMPTS: u64 = 40;

/// Does an IP packet of this size pass in this direction?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) direction: Direction,
    pub(super) size: u32,
}

/// Questions that are asked at the same time.
#[derive(Debug)]
pub(super) struct Questions {
    answers: Vec<(Question, Option<bool>)>,
    /// The first small packet that can be a witness; earlier ones belong to other questions.
    first_witness: u64,
    witnesses: Vec<u64>,
}

impl Questions {
    pub(super) fn new(questions: &[Question], first_witness: u64) -> Self {
        Self {
            answers: questions.iter().map(|question| (*question, None)).collect(),
            first_witness,
            witnesses: Vec::new(),
        }
    }

    /// Those without an answer.
    pub(super) fn open(&self) -> Vec<Question> {
        self.answers.iter().filter(|(_, passes)| passes.is_none()).map(|(question, _)| *question).collect()
    }

    /// A probe of the size came through, or a kernel would not send one.
    pub(super) fn answered(&mut self, question: Question, passes: bool) {
        for (known, answer) in &mut self.answers {
            if *known == question {
                answer.get_or_insert(passes);
            }
        }
    }

    /// The small packet behind the probes of an attempt came back.
    pub(super) fn witnessed(&mut self, number: u64) {
        if number >= self.first_witness && !self.has_witness(number) {
            self.witnesses.push(number);
        }
    }

    pub(super) fn has_witness(&self, number: u64) -> bool {
        self.witnesses.contains(&number)
    }

    /// Whether enough came back to take silence for an answer.
    pub(super) fn silence_counts(&self) -> bool {
        self.witnesses.len() >= WITNESSES
    }

    /// The answers, in the order of the questions; `None` when nothing at all came back.
    pub(super) fn answers(&self) -> Option<Vec<bool>> {
        if self.witnesses.is_empty() && !self.open().is_empty() {
            return None;
        }
        Some(self.answers.iter().map(|(_, passes)| passes.unwrap_or(false)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Question = Question { direction: Direction::Upload, size: 1500 };
    const DOWN: Question = Question { direction: Direction::Download, size: 1501 };

    #[test]
    fn silence_is_an_answer_only_with_witnesses() {
        let mut questions = Questions::new(&[UP, DOWN], 1);
        questions.answered(UP, true);
        questions.answered(UP, false);
        assert_eq!(questions.open(), [DOWN]);
        assert_eq!(questions.answers(), None);
        // One from before does not count, and none counts twice.
        for number in [0, 1, 1, 2, 3, 4, 5] {
            questions.witnessed(number);
        }
        assert!(questions.has_witness(5) && !questions.silence_counts());
        questions.witnessed(6);
        assert!(questions.silence_counts());
        assert_eq!(questions.answers(), Some(vec![true, false]));
    }

    #[test]
    fn a_kernel_that_refuses_needs_no_witness() {
        let mut questions = Questions::new(&[UP], 0);
        questions.answered(UP, false);
        assert_eq!(questions.answers(), Some(vec![false]));
    }
}
