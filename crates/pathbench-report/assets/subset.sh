#!/bin/sh
# Cuts the DejaVu fonts of the system down to what the figures use. Needs fonttools (`pip install fonttools`).
set -eu
cd "$(dirname "$0")"
characters="U+0020-007E,U+00A0-017F,U+0391-03A9,U+03B1-03C9,U+2010-2015,U+2018-201E,U+2020-2022,U+2026,U+2030"
characters="$characters,U+2032,U+2033,U+2039,U+203A,U+20AC,U+2190-2199,U+21D2,U+2212,U+221A,U+221E,U+2248,U+2260"
characters="$characters,U+2264,U+2265,U+2580-2593,U+25A0,U+25A1,U+25B2,U+25B3,U+25B6,U+25BC,U+25BD,U+25C6,U+25C7"
characters="$characters,U+25CB,U+25CF,U+2713,U+2717,U+FFFD"
for font in DejaVuSans DejaVuSans-Bold; do
    python3 -m fontTools.subset "/usr/share/fonts/truetype/dejavu/$font.ttf" --unicodes="$characters" \
        --no-hinting --layout-features=kern --name-IDs='*' --notdef-outline --output-file="$font.subset.ttf"
done
