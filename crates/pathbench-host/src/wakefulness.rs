//! How deeply processors sleep while there is nothing to do for them (cpuidle).
//!
//! A processor that sleeps deeply takes its time to wake: some 0.1 ms on bare metal, and in a virtual machine up to
//! milliseconds, for its host has given it to somebody else meanwhile. Each packet after a pause would be that much later.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The latency that users of the machine tolerate, as a 32-bit integer of microseconds, for as long as the file is open
/// (`Documentation/power/pm_qos_interface.rst`). Root's alone on most machines.
const REQUESTS: &str = "/dev/cpu_dma_latency";
const NONE_AT_ALL: i32 = 0;

/// While it exists, no processor of this machine sleeps: each waits awake, which costs power and is felt by what shares
/// its core. Ends with this value or with the process, however that goes.
#[derive(Debug)]
pub struct Wakefulness {
    _request: File,
}

impl Wakefulness {
    /// Keeps the processors awake from now on.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` for ordinary users, as a rule; `NotFound` where the kernel or the container has no such device.
    pub fn request() -> io::Result<Self> {
        let mut request = OpenOptions::new().write(true).open(REQUESTS)?;
        request.write_all(&NONE_AT_ALL.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// What all requests together tolerate.
    fn tolerated() -> i32 {
        let mut value = [0; 4];
        File::open(REQUESTS).unwrap().read_exact(&mut value).unwrap();
        i32::from_ne_bytes(value)
    }

    /// Where the device may be opened at all: else the caller is told why not.
    #[test]
    fn processors_stay_awake_for_as_long_as_they_are_asked_to() {
        match Wakefulness::request() {
            Ok(wakefulness) => {
                assert_eq!(tolerated(), NONE_AT_ALL);
                drop(wakefulness);
            }
            Err(error) => {
                let known = [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound];
                assert!(known.contains(&error.kind()), "{error}");
            }
        }
    }
}
