//! Colours: those of Okabe and Ito, which stay apart for the colour-blind, and one of them for each path.

use crate::ResultSet;

/// An opaque sRGB colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// Text and marks that carry the message.
pub(crate) const INK: Colour = Colour(0x1f, 0x24, 0x2b);
/// Text that explains.
pub(crate) const MUTED: Colour = Colour(0x5b, 0x65, 0x70);
/// Grid lines.
pub(crate) const GRID: Colour = Colour(0xe6, 0xe9, 0xed);
/// Axes and frames.
pub(crate) const FRAME: Colour = Colour(0xb4, 0xbb, 0xc3);
/// Behind everything.
pub(crate) const PAPER: Colour = Colour(0xff, 0xff, 0xff);
/// Behind a stall.
pub(crate) const STALL: Colour = Colour(0xf1, 0xec, 0xe6);
/// The hatching of a stall.
pub(crate) const HATCH: Colour = Colour(0xc4, 0xb6, 0xa6);
/// What went wrong.
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

/// The colour of the `index`th path; beyond the palette's end the colours come again, paler.
fn path_colour(index: usize) -> Colour {
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
            for link in &set.document.links {
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

    /// All names, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where `name` stands in the order; unknown names stand at the end.
    pub(crate) fn rank(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or(self.names.len())
    }

    /// The path's colour.
    pub(crate) fn colour(&self, name: &str) -> Colour {
        path_colour(self.rank(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighteen_paths_have_eighteen_colours() {
        let colours: Vec<Colour> = (0..18).map(path_colour).collect();
        for (index, colour) in colours.iter().enumerate() {
            assert!(!colours[..index].contains(colour), "{colour:?} comes twice");
        }
    }
}
