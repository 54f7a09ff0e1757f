use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const NAMES: [&str; 3] = ["wlan0", "wwan0", "eth0"];

fn local(index: usize, backup: bool) -> LocalPath {
    LocalPath { interface: NAMES[index].to_owned(), address: None, backup, weight: 1 }
}

fn address(index: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, index as u8, 1))
}

struct Bench {
    manager: PathManager,
    now: Timestamp,
    next_path: u32,
    /// Paths that are not abandoned: which wanted path, and whether it is established.
    paths: BTreeMap<PathId, (usize, bool)>,
    /// Opening cannot even be begun.
    refuse: bool,
    prompt: bool,
    log: Vec<(u64, PathAction)>,
}

impl Bench {
    fn new(wanted: &[LocalPath], scheduler: &Scheduler) -> Self {
        Self::with(wanted, scheduler, PathManagerOptions::default())
    }

    fn with(wanted: &[LocalPath], scheduler: &Scheduler, options: PathManagerOptions) -> Self {
        let manager = PathManager::new(wanted, scheduler, false, options);
        let now = Timestamp::from_nanos(1_000_000_000);
        let paths = BTreeMap::new();
        Self { manager, now, next_path: 0, paths, refuse: false, prompt: true, log: Vec::new() }
    }

    fn running(wanted: &[LocalPath], scheduler: &Scheduler) -> Self {
        let mut bench = Self::new(wanted, scheduler);
        for index in 0..wanted.len() {
            bench.up(index);
        }
        assert_eq!(bench.paths.len(), wanted.len());
        bench.log.clear();
        bench
    }

    fn give(&mut self, input: &PathInput) {
        let actions = self.manager.handle(input, self.now);
        self.carry_out(actions);
    }

    fn up(&mut self, index: usize) {
        let interface = NAMES[index].to_owned();
        self.give(&PathInput::AddressAdded { interface: interface.clone(), address: address(index) });
        self.give(&PathInput::LinkUp { interface });
    }

    fn down(&mut self, index: usize) {
        self.give(&PathInput::LinkDown { interface: NAMES[index].to_owned() });
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some(due) = self.manager.next_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now + Duration::from_nanos(1));
            let actions = self.manager.poll(self.now);
            self.carry_out(actions);
        }
        self.now = end;
    }

    fn path_of(&self, index: usize) -> PathId {
        *self.paths.iter().find(|(_, (of, _))| *of == index).unwrap().0
    }

    fn establish(&mut self, path: PathId) {
        self.paths.get_mut(&path).unwrap().1 = true;
        self.give(&PathInput::Established { path });
    }

    fn abandon(&mut self, path: PathId) {
        self.paths.remove(&path);
        self.give(&PathInput::Abandoned { path });
    }

    /// Does what the library would do, and checks that it is never asked for nonsense.
    fn carry_out(&mut self, actions: Vec<PathAction>) {
        for action in actions {
            self.log.push((self.now.as_nanos() / 1_000_000, action.clone()));
            match action {
                PathAction::Open { local, address: from } => {
                    assert!(self.paths.values().all(|(of, _)| *of != local), "opened twice: {:?}", self.log);
                    assert_eq!(from, address(local));
                    if self.refuse && !self.paths.is_empty() {
                        self.give(&PathInput::OpenFailed { local });
                        continue;
                    }
                    let path = PathId::from(self.next_path);
                    self.next_path += 1;
                    self.paths.insert(path, (local, false));
                    self.give(&PathInput::Opened { local, path });
                    if self.prompt && self.paths.contains_key(&path) {
                        self.establish(path);
                    }
                }
                PathAction::Close { path, .. } => {
                    assert!(self.paths.contains_key(&path), "closed what is not open: {:?}", self.log);
                    assert!(self.paths.len() > 1, "closed the last path: {:?}", self.log);
                    self.abandon(path);
                }
                PathAction::SetStatus { path, .. }
                | PathAction::SetRole { path, .. }
                | PathAction::SetSuspended { path, .. }
                | PathAction::SetAvoided { path, .. } => {
                    let established = self.paths.get(&path).is_some_and(|(_, established)| *established);
                    assert!(established, "{path} is not established: {:?}", self.log);
                }
            }
        }
    }

    fn opens(&self) -> Vec<u64> {
        let open =
            |(at, action): &(u64, PathAction)| matches!(action, PathAction::Open { .. }).then_some(*at);
        self.log.iter().filter_map(open).collect()
    }

    fn logged(&self, action: &PathAction) -> bool {
        self.log.iter().any(|(_, done)| done == action)
    }
}

fn two() -> Vec<LocalPath> {
    vec![local(0, false), local(1, false)]
}

#[test]
fn a_path_whose_link_goes_down_is_closed_at_once_and_opened_at_once_when_it_is_back() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    bench.pass(10_000);
    let path = bench.path_of(1);
    let before = bench.now;
    bench.down(1);
    assert!(bench.logged(&PathAction::Close { path, reason: CloseReason::LinkDown }), "{:?}", bench.log);
    bench.pass(5000);
    assert_eq!(bench.opens(), [] as [u64; 0], "the link is down");
    bench.up(1);
    assert_eq!(bench.opens(), [bench.now.as_nanos() / 1_000_000]);
    assert!(bench.now > before);
    assert_eq!(bench.paths.len(), 2);
}

#[test]
fn an_address_that_goes_takes_its_path_along() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    let path = bench.path_of(0);
    bench.give(&PathInput::AddressRemoved { interface: NAMES[0].to_owned(), address: address(0) });
    assert!(
        bench.logged(&PathAction::Close { path, reason: CloseReason::AddressRemoved }),
        "{:?}",
        bench.log
    );
}

#[test]
fn the_last_path_is_closed_only_when_another_is_established() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    bench.down(1);
    let last = bench.path_of(0);
    bench.log.clear();
    bench.down(0);
    assert!(bench.logged(&PathAction::SetSuspended { path: last, suspended: true }), "{:?}", bench.log);
    assert!(bench.paths.contains_key(&last));
    bench.prompt = false;
    bench.up(1);
    assert!(bench.paths.contains_key(&last), "the other one is not established yet");
    let other = bench.path_of(1);
    bench.establish(other);
    assert!(
        bench.logged(&PathAction::Close { path: last, reason: CloseReason::LinkDown }),
        "{:?}",
        bench.log
    );
}

#[test]
fn the_last_path_goes_on_when_its_link_is_back() {
    let mut bench = Bench::running(&two()[..1], &Scheduler::LowestRtt);
    let path = bench.path_of(0);
    bench.down(0);
    bench.pass(5000);
    bench.up(0);
    assert!(bench.logged(&PathAction::SetSuspended { path, suspended: false }), "{:?}", bench.log);
    assert_eq!(bench.opens(), [] as [u64; 0]);
}

#[test]
fn opening_is_bounded_and_retried_with_back_off() {
    let options =
        PathManagerOptions { open_timeout: Duration::from_secs(1), ..PathManagerOptions::default() };
    let mut bench = Bench::with(&two(), &Scheduler::LowestRtt, options);
    bench.up(0);
    bench.prompt = false;
    bench.log.clear();
    bench.up(1);
    bench.pass(60_000);
    let opens = bench.opens();
    let gaps: Vec<u64> = opens.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] >= 1000 && gaps[0] < 1100, "{gaps:?}");
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert_eq!(*gaps.last().unwrap(), 4000, "a second of opening and three of waiting: {gaps:?}");
    // A link event starts afresh.
    bench.down(1);
    let opened = bench.opens().len();
    bench.prompt = true;
    bench.up(1);
    assert_eq!(bench.opens().len(), opened + 1, "{:?}", bench.log);
    assert_eq!(bench.paths.len(), 2);
}

#[test]
fn a_path_that_nobody_answers_on_costs_one_path_id() {
    let mut bench = Bench::new(&two(), &Scheduler::LowestRtt);
    bench.up(0);
    bench.prompt = false;
    bench.up(1);
    for _ in 0..20 {
        bench.pass(2000);
        bench.down(1);
        bench.pass(2000);
        bench.up(1);
    }
    assert_eq!(bench.opens().len(), 2, "{:?}", bench.log);
    let path = bench.path_of(1);
    bench.establish(path);
    assert!(bench.logged(&PathAction::SetRole { path, backup: false, weight: 1 }));
}

#[test]
fn refused_openings_are_retried_soon_and_then_more_slowly() {
    let mut bench = Bench::new(&two(), &Scheduler::LowestRtt);
    bench.up(0);
    bench.refuse = true;
    bench.up(1);
    bench.pass(10_000);
    let gaps: Vec<u64> = bench.opens().windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() < 15, "{gaps:?}");
    assert!(gaps.iter().skip(1).take(3).all(|gap| *gap <= 200), "{gaps:?}");
}

#[test]
fn a_dead_path_is_closed_and_tried_again() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    let path = bench.path_of(0);
    bench.give(&PathInput::Silent { path });
    assert!(bench.logged(&PathAction::SetSuspended { path, suspended: true }));
    assert!(
        bench.logged(&PathAction::SetStatus { path, backup: true }),
        "acknowledgements take the other path"
    );
    bench.give(&PathInput::Dead { path });
    assert!(bench.logged(&PathAction::Close { path, reason: CloseReason::Silent }));
    bench.pass(1000);
    assert_eq!(bench.paths.len(), 2, "{:?}", bench.log);
}

#[test]
fn a_silent_path_that_is_heard_again_is_used_again() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    let path = bench.path_of(0);
    bench.give(&PathInput::Silent { path });
    bench.log.clear();
    bench.give(&PathInput::Heard { path });
    assert!(bench.logged(&PathAction::SetSuspended { path, suspended: false }));
    assert!(bench.logged(&PathAction::SetStatus { path, backup: false }));
}

#[test]
fn a_backup_path_is_available_while_no_other_is() {
    let mut bench = Bench::running(&[local(0, false), local(1, true)], &Scheduler::LowestRtt);
    let (wifi, backup) = (bench.path_of(0), bench.path_of(1));
    bench.give(&PathInput::Silent { path: wifi });
    assert!(bench.logged(&PathAction::SetStatus { path: backup, backup: false }), "{:?}", bench.log);
    bench.log.clear();
    bench.give(&PathInput::Heard { path: wifi });
    assert!(bench.logged(&PathAction::SetStatus { path: backup, backup: true }), "{:?}", bench.log);
}

#[test]
fn with_the_backup_scheduler_all_but_the_first_are_backups_until_they_are_needed() {
    let mut bench = Bench::new(&two(), &Scheduler::backup());
    bench.up(0);
    bench.up(1);
    let backup = bench.path_of(1);
    assert!(bench.logged(&PathAction::SetStatus { path: backup, backup: true }), "{:?}", bench.log);
    bench.log.clear();
    bench.give(&PathInput::BackupNeeded(true));
    assert_eq!(bench.log.len(), 1);
    assert!(bench.logged(&PathAction::SetStatus { path: backup, backup: false }), "{:?}", bench.log);
    bench.give(&PathInput::BackupNeeded(false));
    assert!(bench.logged(&PathAction::SetStatus { path: backup, backup: true }), "{:?}", bench.log);
}

#[test]
fn what_the_server_says_beyond_our_own_word_is_avoided_and_not_echoed() {
    let mut bench = Bench::running(&two(), &Scheduler::LowestRtt);
    let path = bench.path_of(0);
    bench.give(&PathInput::RemoteStatus { path, backup: true });
    assert_eq!(bench.log.len(), 1, "{:?}", bench.log);
    assert!(bench.logged(&PathAction::SetAvoided { path, avoided: true }));
    bench.give(&PathInput::RemoteStatus { path, backup: false });
    assert!(bench.logged(&PathAction::SetAvoided { path, avoided: false }));
    // Our own word, repeated by the server.
    bench.give(&PathInput::Silent { path });
    bench.log.clear();
    bench.give(&PathInput::RemoteStatus { path, backup: true });
    assert!(bench.log.is_empty(), "{:?}", bench.log);
}

#[test]
fn addresses_of_the_other_family_are_not_used() {
    let mut bench = Bench::new(&two(), &Scheduler::LowestRtt);
    let interface = NAMES[0].to_owned();
    bench.give(&PathInput::LinkUp { interface: interface.clone() });
    bench.give(&PathInput::AddressAdded { interface, address: "2001:db8::1".parse().unwrap() });
    bench.pass(5000);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
}

#[derive(Debug, Clone)]
enum Step {
    Up(usize),
    Down(usize),
    Address(usize, bool),
    Silent(usize),
    Heard(usize),
    Dead(usize),
    Remote(usize, bool),
    Establish,
    AbandonedByPeer(usize),
    Needed(bool),
    Refuse(bool),
    Prompt(bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0_usize..3;
    prop_oneof![
        3 => which.clone().prop_map(Step::Up),
        2 => which.clone().prop_map(Step::Down),
        1 => (which.clone(), any::<bool>()).prop_map(|(index, there)| Step::Address(index, there)),
        1 => which.clone().prop_map(Step::Silent),
        1 => which.clone().prop_map(Step::Heard),
        1 => which.clone().prop_map(Step::Dead),
        1 => (which.clone(), any::<bool>()).prop_map(|(index, backup)| Step::Remote(index, backup)),
        2 => Just(Step::Establish),
        1 => which.prop_map(Step::AbandonedByPeer),
        1 => any::<bool>().prop_map(Step::Needed),
        1 => any::<bool>().prop_map(Step::Refuse),
        1 => any::<bool>().prop_map(Step::Prompt),
        4 => (1_u64..3000).prop_map(Step::Pass),
    ]
}

impl Bench {
    /// Tells something about the path of a wanted path, if there is one.
    fn give_of(&mut self, index: usize, input: impl FnOnce(PathId) -> PathInput) {
        let path = self.paths.iter().find(|(_, (of, _))| *of == index).map(|(path, _)| *path);
        if let Some(path) = path {
            self.give(&input(path));
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Up(index) => self.up(index),
            Step::Down(index) => self.down(index),
            Step::Address(index, there) => {
                let (interface, address) = (NAMES[index].to_owned(), address(index));
                self.give(&if there {
                    PathInput::AddressAdded { interface, address }
                } else {
                    PathInput::AddressRemoved { interface, address }
                });
            }
            Step::Silent(index) => self.give_of(index, |path| PathInput::Silent { path }),
            Step::Heard(index) => self.give_of(index, |path| PathInput::Heard { path }),
            Step::Dead(index) => self.give_of(index, |path| PathInput::Dead { path }),
            Step::Remote(index, backup) => {
                self.give_of(index, |path| PathInput::RemoteStatus { path, backup });
            }
            Step::Establish => {
                let opening =
                    self.paths.iter().find(|(_, (_, established))| !established).map(|(path, _)| *path);
                if let Some(path) = opening {
                    self.establish(path);
                }
            }
            Step::AbandonedByPeer(index) => {
                let path = self.paths.iter().find(|(_, (of, _))| *of == index).map(|(path, _)| *path);
                if let Some(path) = path {
                    self.abandon(path);
                }
            }
            Step::Needed(needed) => self.give(&PathInput::BackupNeeded(needed)),
            Step::Refuse(refuse) => self.refuse = refuse,
            Step::Prompt(prompt) => self.prompt = prompt,
            Step::Pass(ms) => self.pass(ms),
        }
    }
}

proptest! {
    /// Whatever happens: never two openings of one path at once, only open paths are closed, never the last one
    /// (all of which [`Bench::carry_out`] checks); actions are bounded; and when all is well again every path is open.
    #[test]
    fn in_the_end_every_path_that_is_up_is_open(
        backups in prop::collection::vec(any::<bool>(), 3),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let wanted: Vec<_> = backups.iter().enumerate().map(|(index, backup)| local(index, *backup)).collect();
        let mut bench = Bench::new(&wanted, &Scheduler::LowestRtt);
        let begin = bench.now;
        for step in &steps {
            bench.take(step);
        }
        bench.refuse = false;
        bench.prompt = true;
        for index in 0..3 {
            bench.up(index);
            bench.take(&Step::Heard(index));
            // One that is alone is not closed: the peer answers in the end.
            bench.take(&Step::Establish);
        }
        bench.pass(20_000);
        let established = bench.paths.values().filter(|(_, established)| *established).count();
        prop_assert_eq!(established, 3, "{:?}", bench.log);
        let seconds = bench.now.since(begin).as_secs_f64();
        let bound = 12.0 * (steps.len() + 6) as f64 + 24.0 * seconds;
        prop_assert!((bench.log.len() as f64) < bound, "{} actions in {seconds} s", bench.log.len());
    }
}
