//! Wi-Fi, on machines that mostly have none.

use pathbench_host::wifi::WifiSocket;
use pathbench_kerneltest::{Outcome, ensure, tests};

tests!(a_namespace_without_radio_has_no_wifi_and_that_is_no_error);

/// A fresh namespace has no radio, whether or not the kernel knows what one is.
fn a_namespace_without_radio_has_no_wifi_and_that_is_no_error() -> Outcome {
    let Some(mut wifi) = WifiSocket::open()? else { return Ok(()) };
    let found = wifi.interfaces()?;
    ensure!(found.is_empty(), "{found:?}");
    Ok(())
}
