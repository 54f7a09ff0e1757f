//! How tests are listed, what they say when they fail, and whether they are to be run by an ordinary user as well.

/// Declares that this program of tests is to be run by an ordinary user as well, because it opens sockets, makes
/// namespaces, asks the kernel or starts the program under test. `./test` finds it by the name of the test.
#[macro_export]
macro_rules! unprivileged_too {
    () => {
        #[test]
        fn unprivileged_too() {
            assert_eq!($crate::wrong_user(), None);
        }
    };
}

/// Declares that what this program tests does not depend on who runs it: it only computes, or reads the sources.
#[macro_export]
macro_rules! privilege_independent {
    () => {};
}

/// A module's function `trials`: a list of tests out of functions, named after them. Each is called as it is, or, after
/// `function =>`, handed to that function, which returns an [`Outcome`](crate::Outcome).
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            vec![$($crate::trial(module_path!(), stringify!($name), $name)),+]
        }
    };
    ($around:path => $($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            vec![$($crate::trial(module_path!(), stringify!($name), || $around($name))),+]
        }
    };
}

/// Like `assert!`, for functions that return a `Result<_, Failed>`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        // Not negated: clippy takes the opposite of a comparison of floats for a mistake.
        if $condition {
        } else {
            return Err($crate::libtest_mimic::Failed::from(format!($($text)+)));
        }
    };
}
