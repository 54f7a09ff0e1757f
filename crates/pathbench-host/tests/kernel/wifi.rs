//! Wi-Fi on machines that may have none.

use pathbench_host::wifi::WifiSocket;
use pathbench_testkit::{TrialOutcome, ensure, tests};

tests!(a_namespace_without_radio_has_no_wifi_and_that_is_no_error);

/// A new namespace has no Wi-Fi interface, irrespective of the kernel's support.
fn a_namespace_without_radio_has_no_wifi_and_that_is_no_error() -> TrialOutcome {
    let Some(mut wifi) = WifiSocket::open()? else { return Ok(()) };
    let found = wifi.interfaces()?;
    ensure!(found.is_empty(), "{found:?}");
    Ok(())
}
