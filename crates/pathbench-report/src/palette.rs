//! Colours: those of Okabe and Ito, which stay apart for the colour-blind, and one of them for each path.

use crate::ResultSet;
use pathbench_record::transport::Transport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Colour {
    /// The colour mixed with paper: 0 leaves it as it is, 1 leaves none of it.
    pub(crate) fn paler(self, part: f64) -> Self {
        let mixed = |one: u8| (255.0 - f64::from(255 - one) * (1.0 - part.clamp(0.0, 1.0))).round() as u8;
        Self(mixed(self.0), mixed(self.1), mixed(self.2))
    }
}

/// Text and marks that carry the message.
pub(crate) const INK: Colour = Colour(0x1f, 0x24, 0x2b);
pub(crate) const MUTED: Colour = Colour(0x5b, 0x65, 0x70);
pub(crate) const GRID: Colour = Colour(0xe6, 0xe9, 0xed);
pub(crate) const FRAME: Colour = Colour(0xb4, 0xbb, 0xc3);
pub(crate) const PAPER: Colour = Colour(0xff, 0xff, 0xff);
pub(crate) const STALL: Colour = Colour(0xf1, 0xec, 0xe6);
pub(crate) const HATCH: Colour = Colour(0xc4, 0xb6, 0xa6);
pub(crate) const ALARM: Colour = Colour(0xa8, 0x2a, 0x1e);
/// Bytes that no path's samples account for.
pub(crate) const UNATTRIBUTED: Colour = Colour(0xb9, 0xc0, 0xc8);

/// Okabe and Ito's palette, without its black and its yellow (too pale for an area), strongest contrast first.
const OKABE_ITO: [Colour; 6] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0xd5, 0x5e, 0x00),
];

/// The colour of a transport. Hue tells the family (blue: TCP, orange: QUIC), lightness whether it is
/// multipath (dark). The four are as far apart in lightness alone (luma 61, 95, 151, 186), so that they stay apart in
/// print without colour and for every kind of colour-blindness.
pub(crate) const fn transport_colour(transport: Transport) -> Colour {
    match transport {
        Transport::Mptcp => Colour(0x00, 0x4c, 0x8c),
        Transport::Mpquic => Colour(0xb3, 0x46, 0x00),
        Transport::Quic => Colour(0xd9, 0x92, 0x00),
        Transport::Tcp => Colour(0x86, 0xca, 0xf2),
    }
}

/// The colour of the `index`th path; beyond the palette's end the colours come again, paler.
pub(crate) fn path_colour(index: usize) -> Colour {
    let Colour(r, g, b) = OKABE_ITO[index % OKABE_ITO.len()];
    let paler = |part: u8| {
        let step = 1.0 - 0.3 * ((index / OKABE_ITO.len()) % 3) as f64;
        (255.0 - f64::from(255 - part) * step).round() as u8
    };
    Colour(paler(r), paler(g), paler(b))
}

/// The paths of one or several results, in a fixed order; each keeps its colour in every figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    names: Vec<String>,
}

impl Paths {
    /// Links in the order of the scenario first, then paths that only runs or samples name.
    pub(crate) fn of(sets: &[&ResultSet]) -> Self {
        let mut paths = Self::default();
        for set in sets {
            let links = &set.document.links;
            for link in links.iter().filter(|link| !links.iter().any(|one| is_part(&link.name, &one.name))) {
                paths.add(&link.name);
            }
        }
        for set in sets {
            for path in set.document.runs.iter().flat_map(|run| &run.paths) {
                paths.add(&path.name);
            }
            for sample in &set.samples {
                paths.add(&sample.path);
            }
        }
        paths
    }

    fn add(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where `name` stands in the order, a part of a path where the path does; unknown names stand at the end.
    pub(crate) fn rank(&self, name: &str) -> usize {
        let exact = self.names.iter().position(|known| known == name);
        let whole = || self.names.iter().position(|known| is_part(name, known));
        exact.or_else(whole).unwrap_or(self.names.len())
    }

    pub(crate) fn colour(&self, name: &str) -> Colour {
        path_colour(self.rank(name))
    }
}

/// Whether `link` is an inner link of `path`: `wlan.hop` is one of `wlan`.
pub(crate) fn is_part(link: &str, path: &str) -> bool {
    !path.is_empty() && link.strip_prefix(path).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_links_have_the_colour_of_their_path() {
        let mut paths = Paths::default();
        paths.add("eth");
        paths.add("wlan");
        assert_eq!(paths.colour("wlan.hop"), paths.colour("wlan"));
        assert_ne!(paths.colour("wlan2.hop"), paths.colour("wlan"));
        assert!(!is_part("wlan", "wlan") && !is_part("wlan.", "wlan") && !is_part(".hop", ""));
    }

    /// Luma of ITU-R BT.601: what is left of a colour in a grey print.
    fn luma(Colour(r, g, b): Colour) -> f64 {
        0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
    }

    /// `colour` as a dichromat sees it, by the matrices of Viénot, Brettel and Mollon (1999) without gamma.
    fn seen_without(colour: Colour, red: bool) -> [f64; 3] {
        let Colour(r, g, b) = colour;
        let [r, g, b] = [r, g, b].map(f64::from);
        let mixed = if red { 0.112 * r + 0.888 * g } else { 0.293 * r + 0.707 * g };
        let blue = if red { 0.004 * r - 0.004 * g + b } else { -0.022 * r + 0.022 * g + b };
        [mixed, mixed, blue]
    }

    #[test]
    fn transports_stay_apart_in_grey_and_for_the_colour_blind() {
        let all =
            [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic].map(transport_colour);
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert!((luma(*one) - luma(*other)).abs() > 30.0, "{one:?} and {other:?} in grey");
                for red in [true, false] {
                    let (a, b) = (seen_without(*one, red), seen_without(*other, red));
                    let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(distance > 40.0, "{one:?} and {other:?}: {distance}");
                }
            }
        }
    }

    #[test]
    fn eighteen_paths_have_eighteen_colours() {
        let colours: Vec<Colour> = (0..18).map(path_colour).collect();
        for (index, colour) in colours.iter().enumerate() {
            assert!(!colours[..index].contains(colour), "{colour:?} comes twice");
        }
    }
}
