//! How tests are listed and what they say when they fail.

/// A module's function `trials`: a list of tests out of functions, named after them. Each is called as it is, or, after
/// `function =>`, handed to that function, which returns an [`Outcome`](crate::Outcome).
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), $name)),+]
        }
    };
    ($around:path => $($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), || $around($name))),+]
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
