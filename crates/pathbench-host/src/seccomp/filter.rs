//! The BPF program that selects the calls (linux/filter.h, linux/seccomp.h).

/// `AUDIT_ARCH_*` of linux/audit.h: a call of another architecture has other numbers, and stays with the kernel.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// `SOCK_TYPE_MASK` of linux/net.h: the bits of the type argument without flags.
pub(super) const TYPE_MASK: u32 = 0xf;

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The low half of an argument on little-endian machines; the kernel takes these arguments as `int`.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A socket option by level and name, as arguments of setsockopt(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionName {
    pub level: i32,
    pub name: i32,
}

/// The calls that wait for the supervisor: `socket` for TCP and MPTCP over IPv4 and IPv6, `landlock_restrict_self`,
/// `io_uring_setup`, and `setsockopt` of these options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterPlan<'a> {
    pub options: &'a [OptionName],
    /// `io_uring_setup` fails with `ENOSYS` instead.
    pub deny_io_uring: bool,
}

/// A BPF program for `SECCOMP_SET_MODE_FILTER`.
#[derive(Clone)]
pub(crate) struct SeccompFilter(pub(crate) Vec<libc::sock_filter>);

/// The target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Allow,
    Notify,
    Deny,
    Socket,
    Stream,
    Protocol,
    Options,
    Level(i32),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Load(u32),
    And(u32),
    IfEqual(u32, Label),
    Jump(Label),
    Return(u32),
    Mark(Label),
}

impl SeccompFilter {
    /// `None` on a processor architecture without a known `AUDIT_ARCH_*`, or with more options than BPF's jumps reach.
    pub(super) fn new(plan: FilterPlan<'_>) -> Option<Self> {
        assemble(&steps(plan, ARCHITECTURE?)).map(Self)
    }

    /// The calls with these numbers do nothing and succeed. `None` on a processor architecture without a known
    /// `AUDIT_ARCH_*`.
    pub(crate) fn succeeding(calls: &[libc::c_long]) -> Option<Self> {
        use Step::{IfEqual, Jump, Load, Mark, Return};
        let native = Label::Level(-1);
        let mut steps =
            vec![Load(ARCH), IfEqual(ARCHITECTURE?, native), Jump(Label::Allow), Mark(native), Load(NUMBER)];
        steps.extend(calls.iter().map(|number| IfEqual(*number as u32, Label::Deny)));
        steps.extend([Mark(Label::Allow), Return(libc::SECCOMP_RET_ALLOW)]);
        // Error number 0 is success.
        steps.extend([Mark(Label::Deny), Return(libc::SECCOMP_RET_ERRNO)]);
        assemble(&steps).map(Self)
    }
}

fn steps(plan: FilterPlan<'_>, architecture: u32) -> Vec<Step> {
    use Step::{And, IfEqual, Jump, Load, Mark, Return};
    let number = |number: libc::c_long| number as u32;
    let native = Label::Level(-1);
    let io_uring = if plan.deny_io_uring { Label::Deny } else { Label::Notify };
    let mut steps = vec![
        Load(ARCH),
        IfEqual(architecture, native),
        Jump(Label::Allow),
        Mark(native),
        Load(NUMBER),
        IfEqual(number(libc::SYS_socket), Label::Socket),
        IfEqual(number(libc::SYS_setsockopt), Label::Options),
        IfEqual(number(libc::SYS_landlock_restrict_self), Label::Notify),
        IfEqual(number(libc::SYS_io_uring_setup), io_uring),
        Jump(Label::Allow),
        Mark(Label::Socket),
        Load(argument(0)),
        IfEqual(libc::AF_INET as u32, Label::Stream),
        IfEqual(libc::AF_INET6 as u32, Label::Stream),
        Jump(Label::Allow),
        Mark(Label::Stream),
        Load(argument(1)),
        And(TYPE_MASK),
        IfEqual(libc::SOCK_STREAM as u32, Label::Protocol),
        Jump(Label::Allow),
        Mark(Label::Protocol),
        Load(argument(2)),
        IfEqual(0, Label::Notify),
        IfEqual(libc::IPPROTO_TCP as u32, Label::Notify),
        IfEqual(libc::IPPROTO_MPTCP as u32, Label::Notify),
        Jump(Label::Allow),
        Mark(Label::Options),
        Load(argument(1)),
    ];
    let mut levels: Vec<i32> = plan.options.iter().map(|option| option.level).collect();
    levels.sort_unstable();
    levels.dedup();
    steps.extend(levels.iter().map(|level| IfEqual(*level as u32, Label::Level(*level))));
    steps.push(Jump(Label::Allow));
    for level in levels {
        steps.extend([Mark(Label::Level(level)), Load(argument(2))]);
        let names = plan.options.iter().filter(|option| option.level == level);
        steps.extend(names.map(|option| IfEqual(option.name as u32, Label::Notify)));
        steps.push(Jump(Label::Allow));
    }
    steps.extend([Mark(Label::Notify), Return(libc::SECCOMP_RET_USER_NOTIF)]);
    steps.extend([Mark(Label::Deny), Return(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)]);
    steps.extend([Mark(Label::Allow), Return(libc::SECCOMP_RET_ALLOW)]);
    steps
}

/// Replaces labels by distances; `None` if a distance exceeds 255 instructions.
fn assemble(steps: &[Step]) -> Option<Vec<libc::sock_filter>> {
    let is_mark = |step: &&Step| matches!(step, Step::Mark(_));
    let position = |label: Label| {
        let index = steps.iter().position(|step| matches!(step, Step::Mark(here) if *here == label))?;
        Some(index - steps[..index].iter().filter(is_mark).count())
    };
    let instruction = |code, k, jt| libc::sock_filter { code, jt, jf: 0, k };
    let mut program = Vec::with_capacity(steps.len());
    for step in steps {
        let distance = |label| position(label)?.checked_sub(program.len() + 1);
        program.push(match *step {
            Step::Mark(_) => continue,
            Step::Load(offset) => instruction(LOAD, offset, 0),
            Step::And(mask) => instruction(AND, mask, 0),
            Step::IfEqual(value, label) => {
                instruction(JUMP_IF_EQUAL, value, u8::try_from(distance(label)?).ok()?)
            }
            Step::Jump(label) => instruction(JUMP, u32::try_from(distance(label)?).ok()?, 0),
            Step::Return(action) => instruction(RETURN, action, 0),
        });
    }
    Some(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NATIVE: u32 = ARCHITECTURE.unwrap();
    const OPTIONS: [OptionName; 3] = [
        OptionName { level: libc::SOL_TCP, name: libc::TCP_USER_TIMEOUT },
        OptionName { level: libc::SOL_TCP, name: libc::TCP_QUICKACK },
        OptionName { level: libc::SOL_IP, name: libc::IP_TTL },
    ];

    /// Runs the program as the kernel does (`bpf_prog_run`), on a call.
    fn action(filter: &SeccompFilter, arch: u32, number: libc::c_long, arguments: [u64; 3]) -> u32 {
        let mut data = [0_u8; 64];
        data[..4].copy_from_slice(&(number as u32).to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for (index, argument) in arguments.iter().enumerate() {
            data[16 + 8 * index..24 + 8 * index].copy_from_slice(&argument.to_le_bytes());
        }
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &filter.0[at];
            at += 1;
            match step.code {
                LOAD => {
                    let offset = step.k as usize;
                    accumulator = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                }
                AND => accumulator &= step.k,
                JUMP_IF_EQUAL => at += usize::from(if accumulator == step.k { step.jt } else { step.jf }),
                JUMP => at += step.k as usize,
                RETURN => return step.k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    fn filter(deny_io_uring: bool) -> SeccompFilter {
        SeccompFilter::new(FilterPlan { options: &OPTIONS, deny_io_uring }).unwrap()
    }

    #[test]
    fn tcp_sockets_and_the_named_options_wait_and_everything_else_stays_with_the_kernel() {
        const WAIT: u32 = libc::SECCOMP_RET_USER_NOTIF;
        const PASS: u32 = libc::SECCOMP_RET_ALLOW;
        let (v4, v6, unix) = (libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_UNIX as u64);
        let (stream, datagram) = (libc::SOCK_STREAM as u64, libc::SOCK_DGRAM as u64);
        let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
        let (socket, set) = (libc::SYS_socket, libc::SYS_setsockopt);
        let tcp = libc::SOL_TCP as u64;
        for (name, expected, arch, number, arguments) in [
            ("tcp", WAIT, NATIVE, socket, [v4, stream, 0]),
            ("tcp by number", WAIT, NATIVE, socket, [v6, stream | flags, 6]),
            ("mptcp", WAIT, NATIVE, socket, [v4, stream, 262]),
            ("upper halves of the arguments are ignored", WAIT, NATIVE, socket, [v4 | 1 << 40, stream, 0]),
            ("sctp", PASS, NATIVE, socket, [v4, stream, 132]),
            ("udp", PASS, NATIVE, socket, [v4, datagram | flags, 0]),
            ("unix", PASS, NATIVE, socket, [unix, stream, 0]),
            ("another architecture", PASS, 0x4000_0003, socket, [v4, stream, 0]),
            ("x32", PASS, NATIVE, socket | 0x4000_0000, [v4, stream, 0]),
            ("an option that MPTCP refuses", WAIT, NATIVE, set, [3, tcp, libc::TCP_QUICKACK as u64]),
            ("an option of another level", WAIT, NATIVE, set, [3, 0, libc::IP_TTL as u64]),
            ("an option that MPTCP takes", PASS, NATIVE, set, [3, tcp, libc::TCP_NODELAY as u64]),
            ("the name of one level at another", PASS, NATIVE, set, [3, 41, libc::TCP_QUICKACK as u64]),
            ("landlock", WAIT, NATIVE, libc::SYS_landlock_restrict_self, [3, 0, 0]),
            ("io_uring", WAIT, NATIVE, libc::SYS_io_uring_setup, [8, 0, 0]),
            ("connect", PASS, NATIVE, libc::SYS_connect, [3, 0, 0]),
        ] {
            assert_eq!(action(&filter(false), arch, number, arguments), expected, "{name}");
        }
        let denied = action(&filter(true), NATIVE, libc::SYS_io_uring_setup, [8, 0, 0]);
        assert_eq!(denied, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
    }

    #[test]
    fn the_named_calls_succeed_without_effect_and_others_stay_with_the_kernel() {
        let filter = SeccompFilter::succeeding(&[libc::SYS_setgroups, libc::SYS_setresuid]).unwrap();
        for (number, expected) in [
            (libc::SYS_setgroups, libc::SECCOMP_RET_ERRNO),
            (libc::SYS_setresuid, libc::SECCOMP_RET_ERRNO),
            (libc::SYS_getuid, libc::SECCOMP_RET_ALLOW),
        ] {
            assert_eq!(action(&filter, NATIVE, number, [0; 3]), expected, "{number}");
            assert_eq!(action(&filter, 0x4000_0003, number, [0; 3]), libc::SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn more_options_than_jumps_reach_are_refused() {
        let options: Vec<OptionName> = (0..300).map(|name| OptionName { level: 1, name }).collect();
        assert!(SeccompFilter::new(FilterPlan { options: &options, deny_io_uring: false }).is_none());
        assert!(SeccompFilter::new(FilterPlan { options: &options[..200], deny_io_uring: false }).is_some());
    }

    proptest! {
        #[test]
        fn every_call_gets_one_of_two_answers(number in 0_i64..1000, arguments in any::<[u64; 3]>()) {
            let action = action(&filter(false), NATIVE, number, arguments);
            prop_assert!([libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_RET_ALLOW].contains(&action));
        }
    }
}
