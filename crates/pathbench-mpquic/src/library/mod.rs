//! The workarounds for noq 1.4.0: the behaviour, the file of the workaround, and the test that fails once it is no
//! longer needed (in `tests/pure/` unless stated otherwise). Check the table with each new version of noq.
//! Workarounds for the opening and closing of paths are in `paths/`, with those decisions.
//!
//! | behaviour of the library | workaround | test |
//! |---|---|---|
//! | It has no hook for a scheduler; it reads the window of each path's congestion controller, lowest path id first. | `scheduler/controller.rs`: a wrapped controller returns 0 while another path should be used | `scheduling::round_robin_alternates_where_the_library_would_keep_to_the_first_path` |
//! | It sends acknowledgements for all paths on the path of lowest id, so an idle timeout abandons a path that works. | `paths/pulse.rs`: PINGs from both ends on every path | `traps::trap_1_idle_timeout_with_keep_alive_at_one_end_abandons_a_healthy_path` |
//! | More than 1024 gaps in one stream's data end the connection. | `configuration.rs`: a stream's window is 2 MB | `traps::trap_2_too_many_gaps_in_a_stream_end_the_connection` |
//! | Lost large packets reduce the path MTU to 1200 bytes. | GSO packets that fit the interface (`interfaces.rs` of the transport) | `traps::trap_3_lost_large_packets_collapse_the_path_mtu` |
//! | Only a change of a path's status is signalled, and the peer does not act on it. | `paths/decisions.rs`: open as available, then change; follow the peer's status | `traps::trap_4_only_a_change_of_the_status_is_signalled` |
//! | The peer does not replace ids of paths on which it received no packet. | `paths/wanted.rs`: wait longer for an unanswered path | `traps::path_ids_of_unheard_paths_are_not_replaced` |
//! | It retransmits data in flight on a closed path only after three PTOs. | `paths/detour.rs`: a last PING from another path's socket | `traps::what_was_in_flight_on_a_closed_path_is_sent_again_after_three_ptos` |
//! | A path's own frames wait while a path of lower id has data and space in its window. | `scheduler/pending_frames.rs`: paths of lower id are passed over once | `scheduling::a_busy_path_leaves_a_new_one_room_to_be_validated` |
//! | It detects a black hole only after four losses of large packets, each found by a tail loss probe. | `scheduler/small_ping.rs`: small packets among the large ones | `shrink::a_path_that_shrinks_in_mid_transfer_does_not_make_the_application_wait_for_tail_loss_probes` |
//! | Three lost probes of a size end the MTU search below it, even if a full queue drops them. | `scheduler/mtu_probe.rs`: the third probe waits until the queue drains | `mtu::a_search_in_the_midst_of_slow_start_ends_on_the_mtu_all_the_same` |
//! | The pacer allows bursts of 10 ms at the window's rate. | `scheduler/controller.rs`, `pacing_rate`: the initial window is sent at once | `library::scheduler::controller::tests::the_initial_window_leaves_at_once_and_larger_ones_are_paced_by_the_window` in the crate |
//! | It counts a path's UDP payload, heartbeats and probes included, not its stream data. | `stream_meter.rs`: wrapped packet keys parse the frames | `payload::a_spare_that_carried_no_stream_data_has_none` |
//! | It tells congestion controllers neither a packet's acknowledgement delay nor the send time of a packet of acknowledgements, and its own smoothed RTT contains the delay while the minimum RTT is that of larger packets. | `stream_meter.rs` reads the delay from the ACK frame, `scheduler/rtt_sample.rs` subtracts it | `rtt::the_library_alone_keeps_the_acknowledgement_delay_in_its_smoothed_rtt` |
//! | It reports no path of a DATAGRAM frame, and offers no choice of it. | `stream_meter.rs` notes the paths; `scheduler/copies.rs`: windows of 0 keep a copy off the other paths | `datagrams::the_redundant_scheduler_sends_a_copy_on_each_path` |
//! | It frees sent data only up to the first unacknowledged byte. | `send_buffer.rs`: counts the bytes that the library holds | `withheld::a_client_that_acknowledges_all_but_the_first_packet_does_not_make_a_server_keep_everything` |
//! | A peer may open a new path for each path that it abandons, and each uses memory until the connection ends. | `paths/figures.rs`: limits on paths and path ids | `churn::a_peer_that_opens_and_abandons_thousands_of_paths_makes_nothing_grow` |

mod datagram_notes;
mod frames;
pub(crate) mod scheduler;
pub(crate) mod send_buffer;
pub(crate) mod stream_meter;

pub use datagram_notes::{DATAGRAM_PREFIX_BYTES, DatagramPrefix};
