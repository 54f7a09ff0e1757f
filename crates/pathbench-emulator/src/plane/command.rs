//! What the handle asks of the thread.

use super::{LinkReport, PlaneError, PlaneLink};
use crate::pipe::Condition;
use pathbench_link::ChangeSchedule;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use std::sync::mpsc::SyncSender;

/// Where the answer goes.
pub(super) type Reply<T> = SyncSender<Result<T, PlaneError>>;

/// A request; each is answered once it is in force.
pub(super) enum Command {
    Add { link: Box<PlaneLink>, wall_offset_ns: i64, reply: Reply<usize> },
    Change { link: usize, way: LinkDirection, change: Box<LinkChange>, reply: Reply<()> },
    Follow { link: usize, way: LinkDirection, schedule: ChangeSchedule, reply: Reply<()> },
    Model { link: usize, way: LinkDirection, reply: Reply<LinkModel> },
    SetCondition { link: usize, condition: Condition, reply: Reply<()> },
    Restart { link: usize, seeds: [u64; 2], reply: Reply<()> },
    Report { link: usize, reply: Reply<LinkReport> },
}
