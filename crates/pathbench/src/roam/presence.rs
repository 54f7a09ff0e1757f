//! When the Wi-Fi counts as gone: `MultipathTester`'s rule, which ends a walk some seconds after the Wi-Fi was lost or
//! its identity changed.

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// What was seen of the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sight {
    /// It can be used; the network's name, where the kernel tells.
    There(Option<String>),
    /// It cannot, in words: `wlan0 is down`.
    Gone(String),
}

/// Follows an interface.
#[derive(Debug, Clone)]
pub(super) struct Presence {
    gone_for: Duration,
    /// The first network that was seen.
    network: Option<String>,
    gone: Option<(Timestamp, String)>,
}

impl Presence {
    pub(super) const fn new(gone_for: Duration) -> Self {
        Self { gone_for, network: None, gone: None }
    }

    /// Takes in what is seen at `at`; returns why the walk ends, once it does.
    pub(super) fn look(&mut self, at: Timestamp, sight: Sight) -> Option<String> {
        let why = match sight {
            Sight::Gone(why) => Some(why),
            Sight::There(None) => None,
            Sight::There(Some(network)) => {
                let first = self.network.get_or_insert_with(|| network.clone());
                (*first != network).then(|| format!("the Wi-Fi is `{network}` instead of `{first}`"))
            }
        };
        let Some(why) = why else {
            self.gone = None;
            return None;
        };
        let (since, first_reason) = self.gone.get_or_insert((at, why));
        (at.since(*since) >= self.gone_for).then(|| first_reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "home";

    fn there(network: &str) -> Sight {
        Sight::There(Some(network.to_owned()))
    }

    fn gone() -> Sight {
        Sight::Gone("wlan is down".to_owned())
    }

    /// Each sight half a second after the one before; when the walk ends, and why.
    fn end(sights: Vec<Sight>) -> Option<(u64, String)> {
        let mut presence = Presence::new(Duration::from_secs(2));
        sights.into_iter().zip(0_u64..).find_map(|(sight, half_seconds)| {
            let at = Timestamp::from_nanos(half_seconds * 500_000_000);
            Some((half_seconds, presence.look(at, sight)?))
        })
    }

    #[test]
    fn the_walk_ends_when_the_wifi_has_been_gone_for_some_seconds() {
        let down = "wlan is down".to_owned();
        let home = || there(HOME);
        for (sights, expected) in [
            (vec![home(), home(), home(), home(), home(), home()], None),
            (vec![home(), gone(), gone(), gone(), gone(), gone()], Some((5, down.clone()))),
            // It came back in time.
            (vec![home(), gone(), gone(), gone(), home(), gone(), gone(), gone(), gone()], None),
            // The kernel tells no name.
            (vec![Sight::There(None), gone(), gone(), gone(), gone(), gone()], Some((5, down))),
            // Another network is not the one that was left.
            (
                vec![home(), there("café"), gone(), there("café"), there("café"), there("café")],
                Some((5, "the Wi-Fi is `café` instead of `home`".to_owned())),
            ),
            (vec![home(), there("café"), home(), home(), there("café"), there("café")], None),
            (vec![home(), Sight::There(None), home(), Sight::There(None), home(), home()], None),
        ] {
            assert_eq!(end(sights.clone()), expected, "{sights:?}");
        }
    }
}
