//! Figures as 16-bit logarithmic buckets: the exponent of the floating-point number and 6 bits of its mantissa, so a
//! bucket is at most 1.6 % wide, and buckets of many results add up.

use std::sync::LazyLock;

/// A figure; the default is an absent one.
///
/// 0: absent; 1: less than 2⁻²⁰ in any unit, zero included; then 64 buckets for each power of two up to 2⁴⁰. Bit 15 is
/// the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Bucket(pub u16);

const SIGN: u16 = 1 << 15;
const LOWEST_EXPONENT: u64 = 1023 - 20;
const EXPONENTS: u64 = 60;
const MANTISSA_BITS: u32 = 6;

/// Numbers of buckets of one sign.
pub const BUCKETS: usize = 2 + (EXPONENTS << MANTISSA_BITS) as usize;

static VALUES: LazyLock<Vec<f64>> = LazyLock::new(|| (0..BUCKETS).map(middle).collect());

impl Bucket {
    pub const ABSENT: Self = Self(0);

    /// The bucket of a finite number; absent for another.
    pub fn from_value(value: f64) -> Self {
        if !value.is_finite() {
            return Self::ABSENT;
        }
        let bits = value.abs().to_bits() >> (52 - MANTISSA_BITS);
        let lowest = LOWEST_EXPONENT << MANTISSA_BITS;
        if bits < lowest {
            return Self(1);
        }
        let index = (bits - lowest + 2).min(BUCKETS as u64 - 1) as u16;
        Self(if value < 0.0 { index | SIGN } else { index })
    }

    pub fn from_option(value: Option<f64>) -> Self {
        value.map_or(Self::ABSENT, Self::from_value)
    }

    /// A bucket that was read; absent if it is none.
    pub fn read(bits: u16) -> Self {
        if usize::from(bits & !SIGN) < BUCKETS { Self(bits) } else { Self::ABSENT }
    }

    pub const fn is_present(self) -> bool {
        self.0 != 0
    }

    pub const fn is_negative(self) -> bool {
        self.0 & SIGN != 0
    }

    /// The number of the bucket without its sign.
    pub const fn index(self) -> usize {
        (self.0 & !SIGN) as usize
    }

    /// The middle of the bucket.
    pub fn value(self) -> Option<f64> {
        if !self.is_present() {
            return None;
        }
        let value = VALUES.get(self.index()).copied().unwrap_or_default();
        Some(if self.is_negative() { -value } else { value })
    }

    /// This figure divided by another; absent if either is absent or not above zero.
    pub fn ratio_to(self, other: Self) -> Self {
        match (self.value(), other.value()) {
            (Some(one), Some(other)) if one > 0.0 && other > 0.0 => Self::from_value(one / other),
            _ => Self::ABSENT,
        }
    }
}

fn middle(index: usize) -> f64 {
    let Some(above) = index.checked_sub(2) else { return 0.0 };
    let low = (above as u64 + (LOWEST_EXPONENT << MANTISSA_BITS)) << (52 - MANTISSA_BITS);
    f64::midpoint(f64::from_bits(low), f64::from_bits(low + (1 << (52 - MANTISSA_BITS))))
}
