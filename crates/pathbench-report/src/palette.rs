//! Colours with a meaning, for light and dark paper. Each colour of a mark has a contrast of 3:1 or more to its paper
//! (WCAG 2.2, 1.4.11), each colour of a text 4.5:1 or more (1.4.3).
//!
//! Figure files are on light paper, with a style sheet for dark paper ([`Colour::on_dark_paper`]). In a page every
//! colour is a custom property ([`custom_properties`]). So the same picture follows the reader's colour scheme.

use pathbench_record::transport::Transport;
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// The part of the paper in a pale colour.
const PALE: f64 = 0.7;

impl Colour {
    pub(crate) const fn from_rgb(rgb: u32) -> Self {
        Self((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8)
    }

    /// For an area behind marks of the same colour, which carry the meaning.
    pub(crate) fn pale(self) -> Self {
        self.mixed(PAPER, PALE)
    }

    fn mixed(self, other: Self, part: f64) -> Self {
        let mixed = |one: u8, other: u8| {
            (f64::from(one) * (1.0 - part) + f64::from(other) * part).round().clamp(0.0, 255.0) as u8
        };
        Self(mixed(self.0, other.0), mixed(self.1, other.1), mixed(self.2, other.2))
    }

    /// The same meaning on dark paper; `None` for a colour that is not of the palette.
    pub(crate) fn on_dark_paper(self) -> Option<Self> {
        let pairs = pairs();
        let exact = pairs.iter().find(|pair| pair.1 == self).map(|pair| pair.2);
        let dark_paper = COMMON[0].2;
        exact.or_else(|| {
            pairs.iter().find(|pair| pair.1.pale() == self).map(|pair| pair.2.mixed(dark_paper, PALE))
        })
    }

    /// The value of a CSS property in a page: a reference to the colour's custom property.
    pub(crate) fn in_page(self) -> String {
        let pairs = pairs();
        let exact = pairs.iter().find(|pair| pair.1 == self).map(|pair| format!("var(--{})", pair.0));
        let pale = || {
            let (name, ..) = pairs.iter().find(|pair| pair.1.pale() == self)?;
            let part = ((1.0 - PALE) * 100.0).round();
            Some(format!("color-mix(in srgb,var(--{name}) {part}%,var(--{}))", COMMON[0].0))
        };
        exact.or_else(pale).unwrap_or_else(|| self.to_string())
    }
}

pub(crate) const INK: Colour = Colour::from_rgb(0x1f_24_2b);
pub(crate) const MUTED: Colour = Colour::from_rgb(0x5b_65_70);
pub(crate) const GRID: Colour = Colour::from_rgb(0xe6_e9_ed);
pub(crate) const FRAME: Colour = Colour::from_rgb(0x87_8f_98);
pub(crate) const PAPER: Colour = Colour::from_rgb(0xff_ff_ff);
pub(crate) const STALL: Colour = Colour::from_rgb(0xf4_f0_eb);
pub(crate) const HATCH: Colour = Colour::from_rgb(0x8a_7a_66);
pub(crate) const ALARM: Colour = Colour::from_rgb(0xa8_2a_1e);
pub(crate) const UNATTRIBUTED: Colour = Colour::from_rgb(0x85_8d_96);

/// Name of the custom property, and the colour on light and on dark paper.
type Named = (&'static str, Colour, Colour);

const COMMON: [Named; 15] = [
    ("paper", PAPER, Colour::from_rgb(0x16_19_1d)),
    ("ink", INK, Colour::from_rgb(0xe4_e8_ec)),
    ("muted", MUTED, Colour::from_rgb(0xa3_ad_b8)),
    ("soft", Colour::from_rgb(0xf5_f7_f9), Colour::from_rgb(0x1f_24_29)),
    ("line", Colour::from_rgb(0xdf_e3_e8), Colour::from_rgb(0x33_3a_42)),
    ("good", Colour::from_rgb(0x00_73_4f), Colour::from_rgb(0x4c_c7_9d)),
    ("mixed", Colour::from_rgb(0x8a_5a_00), Colour::from_rgb(0xe0_b0_50)),
    ("bad", ALARM, Colour::from_rgb(0xf0_8a_7d)),
    ("grid", GRID, Colour::from_rgb(0x2a_30_37)),
    ("frame", FRAME, Colour::from_rgb(0x6b_75_80)),
    ("stall", STALL, Colour::from_rgb(0x2b_27_22)),
    ("hatch", HATCH, Colour::from_rgb(0x9a_8a_74)),
    ("unattributed", UNATTRIBUTED, Colour::from_rgb(0x83_8d_98)),
    ("upload", UPLOAD, Colour::from_rgb(0xc9_a8_ff)),
    ("download", DOWNLOAD, Colour::from_rgb(0xd2_b4_84)),
];

/// The hues of Okabe and Ito, which colour-blind readers can distinguish, dark enough for light paper; then violet and
/// olive.
const PATHS: [(Colour, Colour); 8] = [
    (Colour::from_rgb(0x00_72_b2), Colour::from_rgb(0x4a_a8_e8)),
    (Colour::from_rgb(0xc7_78_00), Colour::from_rgb(0xf0_a8_3a)),
    (Colour::from_rgb(0x00_93_6b), Colour::from_rgb(0x2f_bf_94)),
    (Colour::from_rgb(0xbd_5f_97), Colour::from_rgb(0xe0_8f_bd)),
    (Colour::from_rgb(0x2b_8f_c7), Colour::from_rgb(0x8a_d0_fa)),
    (Colour::from_rgb(0xb8_4a_00), Colour::from_rgb(0xe8_74_3a)),
    (Colour::from_rgb(0x6f_55_b5), Colour::from_rgb(0xa8_93_e8)),
    (Colour::from_rgb(0x6b_73_00), Colour::from_rgb(0xb3_bd_3f)),
];

/// The directions, or the ends that send in them: no colour of a path or transport.
pub(crate) const UPLOAD: Colour = Colour::from_rgb(0x5a_36_9a);
pub(crate) const DOWNLOAD: Colour = Colour::from_rgb(0x6e_4a_1c);

/// The hue is the family (blue: TCP, orange: QUIC); multipath has the stronger contrast to the paper. The four also
/// differ in lightness, so that they are distinguishable in print without colour and for every kind of
/// colour-blindness.
const TRANSPORTS: [(Transport, Colour, Colour); 4] = [
    (Transport::Tcp, Colour::from_rgb(0x27_7a_b3), Colour::from_rgb(0x3a_7c_c0)),
    (Transport::Mptcp, Colour::from_rgb(0x00_32_66), Colour::from_rgb(0xc4_e6_ff)),
    (Transport::Quic, Colour::from_rgb(0xc2_88_00), Colour::from_rgb(0xcc_84_26)),
    (Transport::Mpquic, Colour::from_rgb(0x8a_35_00), Colour::from_rgb(0xf0_b2_7c)),
];

/// Paths beyond this number have the colours of the first ones again.
pub(crate) const PATH_COLOURS: usize = 3 * PATHS.len();

pub(crate) fn transport_colour(transport: Transport) -> Colour {
    TRANSPORTS.iter().find(|one| one.0 == transport).map_or(INK, |one| one.1)
}

/// The colour of the `index`th path. Beyond the end of the palette, the hues repeat nearer to the ink.
pub(crate) fn path_colour(index: usize) -> Colour {
    path_pair(index).0
}

fn path_pair(index: usize) -> (Colour, Colour) {
    let (light, dark) = PATHS[index % PATHS.len()];
    let part = 0.3 * ((index / PATHS.len()) % 3) as f64;
    (light.mixed(INK, part), dark.mixed(Colour::from_rgb(0xff_ff_ff), part))
}

fn pairs() -> Vec<(String, Colour, Colour)> {
    let paths = (0..PATH_COLOURS).map(|index| {
        let (light, dark) = path_pair(index);
        (format!("path-{index}"), light, dark)
    });
    let transports = TRANSPORTS.iter().map(|(one, light, dark)| (one.name().to_owned(), *light, *dark));
    let common = COMMON.iter().map(|(name, light, dark)| ((*name).to_owned(), *light, *dark));
    common.chain(transports).chain(paths).collect()
}

/// The colours as custom properties, for light paper and for dark screens, and a class `p0`, `p1`, … with the
/// background of each path.
pub(crate) fn custom_properties() -> String {
    let pairs = pairs();
    let of = |colour: fn(&(String, Colour, Colour)) -> Colour| {
        let each = pairs.iter().map(|pair| format!("--{}:{};", pair.0, colour(pair)));
        each.collect::<String>()
    };
    let mut css = format!(
        ":root{{color-scheme:light;{}}}\n@media screen and (prefers-color-scheme: dark){{:root{{color-scheme:dark;{}}}}}\n",
        of(|pair| pair.1),
        of(|pair| pair.2)
    );
    for index in 0..PATH_COLOURS {
        let _ = write!(css, ".p{index}{{background:var(--path-{index})}}");
    }
    css + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2, definitions).
    fn luminance(colour: Colour) -> f64 {
        let part = |one: u8| {
            let one = f64::from(one) / 255.0;
            if one <= 0.04045 { one / 12.92 } else { ((one + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
    }

    fn contrast(one: Colour, other: Colour) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn named(name: &str) -> (Colour, Colour) {
        let found = pairs().into_iter().find(|pair| pair.0 == name).expect("a named colour");
        (found.1, found.2)
    }

    #[test]
    fn marks_contrast_with_their_paper() {
        let background = ["paper", "soft", "line", "grid", "stall"];
        let paper = named("paper");
        for (name, light, dark) in pairs().iter().filter(|pair| !background.contains(&pair.0.as_str())) {
            let found = [contrast(*light, paper.0), contrast(*dark, paper.1)];
            assert!(found.iter().all(|ratio| *ratio >= 3.0), "{name}: {found:.2?}");
        }
        let (hatch, stall) = (named("hatch"), named("stall"));
        assert!(contrast(hatch.0, stall.0) >= 3.0 && contrast(hatch.1, stall.1) >= 3.0);
    }

    #[test]
    fn text_contrasts_with_its_background() {
        for name in ["ink", "muted", "good", "mixed", "bad"] {
            let text = named(name);
            for background in ["paper", "soft", "stall"].map(named) {
                let found = [contrast(text.0, background.0), contrast(text.1, background.1)];
                assert!(found.iter().all(|ratio| *ratio >= 4.5), "{name}: {found:.2?}");
            }
        }
    }

    #[test]
    fn transports_differ_in_lightness() {
        for of in [|pair: (Colour, Colour)| pair.0, |pair: (Colour, Colour)| pair.1] {
            let colour = |name: &str| of(named(name));
            let pairs = [("tcp", "mptcp"), ("quic", "mpquic"), ("tcp", "mpquic"), ("quic", "mptcp")];
            for (one, other) in pairs {
                assert!(contrast(colour(one), colour(other)) >= 1.6, "{one}, {other}");
            }
        }
    }

    #[test]
    fn directions_have_no_colour_that_a_reader_takes_for_a_path() {
        let distance = |a: Colour, b: Colour| {
            let part = |a: u8, b: u8| f64::from(a.abs_diff(b)).powi(2);
            (part(a.0, b.0) + part(a.1, b.1) + part(a.2, b.2)).sqrt()
        };
        let directions = [named("upload"), named("download")];
        for (light, dark) in directions {
            for index in 0..PATHS.len() {
                let path = path_pair(index);
                let found = [distance(light, path.0), distance(dark, path.1)];
                assert!(found.iter().all(|one| *one >= 32.0), "path {index}: {found:.0?}");
            }
        }
        let [upload, download] = directions;
        assert!(distance(upload.0, download.0) >= 80.0 && distance(upload.1, download.1) >= 80.0);
    }

    #[test]
    fn each_colour_has_one_name() {
        let pairs = pairs();
        for (index, (name, light, _)) in pairs.iter().enumerate() {
            let same = pairs[..index].iter().find(|one| one.1 == *light);
            assert_eq!(same.map(|one| &one.0), None, "{name}");
            assert_eq!(light.in_page(), format!("var(--{name})"));
        }
        let expected = format!("color-mix(in srgb,{} 30%,{})", path_colour(1).in_page(), PAPER.in_page());
        assert_eq!(path_colour(1).pale().in_page(), expected);
    }
}
