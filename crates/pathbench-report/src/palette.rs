//! Colours: the palette of Okabe and Ito, which colour-blind readers can distinguish.

use pathbench_record::transport::Transport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Colour {
    pub(crate) fn paler(self, part: f64) -> Self {
        let mixed = |one: u8| (255.0 - f64::from(255 - one) * (1.0 - part.clamp(0.0, 1.0))).round() as u8;
        Self(mixed(self.0), mixed(self.1), mixed(self.2))
    }
}

pub(crate) const INK: Colour = Colour(0x1f, 0x24, 0x2b);
pub(crate) const MUTED: Colour = Colour(0x5b, 0x65, 0x70);
pub(crate) const GRID: Colour = Colour(0xe6, 0xe9, 0xed);
pub(crate) const FRAME: Colour = Colour(0xb4, 0xbb, 0xc3);
pub(crate) const PAPER: Colour = Colour(0xff, 0xff, 0xff);
pub(crate) const STALL: Colour = Colour(0xf1, 0xec, 0xe6);
pub(crate) const HATCH: Colour = Colour(0xc4, 0xb6, 0xa6);
pub(crate) const ALARM: Colour = Colour(0xa8, 0x2a, 0x1e);
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

/// The colour of a transport. The hue is the family (blue: TCP, orange: QUIC); the dark colours are multipath. The
/// four colours also differ in lightness (luma 61, 95, 151, 186), so that they are distinguishable in print without
/// colour and for every kind of colour-blindness.
pub(crate) const fn transport_colour(transport: Transport) -> Colour {
    match transport {
        Transport::Mptcp => Colour(0x00, 0x4c, 0x8c),
        Transport::Mpquic => Colour(0xb3, 0x46, 0x00),
        Transport::Quic => Colour(0xd9, 0x92, 0x00),
        Transport::Tcp => Colour(0x86, 0xca, 0xf2),
    }
}

/// The colour of the `index`th path. Beyond the end of the palette, the colours repeat in paler tones.
pub(crate) fn path_colour(index: usize) -> Colour {
    OKABE_ITO[index % OKABE_ITO.len()].paler(0.3 * ((index / OKABE_ITO.len()) % 3) as f64)
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
