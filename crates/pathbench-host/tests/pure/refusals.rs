//! The reasons why the kernel refuses namespaces.

use pathbench_host::namespace::{Circumstances, IsolationStep, NamespaceRefusal};
use rustix::io::Errno;

const PLAIN: Circumstances = Circumstances {
    max_user_namespaces: Some(1000),
    unprivileged_userns_clone: None,
    apparmor_restrict_unprivileged_userns: None,
    threads: Some(1),
    seccomp_filtered: false,
    user_namespaces_built: true,
    root: false,
};

#[test]
fn the_forbidding_setting_is_named() {
    use IsolationStep::{IdMaps, NetworkAndPid, UserNamespace};
    let apparmor = Circumstances { apparmor_restrict_unprivileged_userns: Some(1), ..PLAIN };
    let cases = [
        (
            Circumstances { max_user_namespaces: Some(0), ..PLAIN },
            UserNamespace,
            Errno::NOSPC,
            "user.max_user_namespaces=10000",
        ),
        (PLAIN, UserNamespace, Errno::NOSPC, "raise user.max_user_namespaces"),
        (
            Circumstances { unprivileged_userns_clone: Some(0), ..PLAIN },
            UserNamespace,
            Errno::PERM,
            "kernel.unprivileged_userns_clone=1",
        ),
        (apparmor, IdMaps, Errno::PERM, "kernel.apparmor_restrict_unprivileged_userns=0"),
        (apparmor, NetworkAndPid, Errno::PERM, "kernel.apparmor_restrict_unprivileged_userns=0"),
        (Circumstances { seccomp_filtered: true, ..PLAIN }, UserNamespace, Errno::PERM, "seccomp=unconfined"),
        (Circumstances { threads: Some(3), ..PLAIN }, UserNamespace, Errno::INVAL, "more than one thread"),
        (PLAIN, UserNamespace, Errno::INVAL, "CONFIG_USER_NS"),
        (PLAIN, UserNamespace, Errno::PERM, "security module"),
        (PLAIN, NetworkAndPid, Errno::NOSPC, "user.max_net_namespaces"),
    ];
    for (circumstances, step, errno, remedy) in cases {
        let text = circumstances.explain(step, errno, true).to_string();
        assert!(text.contains(remedy), "{step} {errno}: {text}");
    }
}

#[test]
fn without_a_user_namespace_root_is_the_remedy() {
    let refusal = PLAIN.explain(IsolationStep::NetworkAndPid, Errno::PERM, false);
    assert_eq!(refusal, NamespaceRefusal::NotRoot);
}
