//! What noq 1.4.0 does that this crate works around, where, and the test that fails once a workaround is not needed any
//! more (in `tests/simulation/` unless it says otherwise). Look through it with each new version of noq.
//!
//! | behaviour of the library | workaround | test |
//! |---|---|---|
//! | It has no hook for a scheduler; it asks each path's congestion controller for its window, lowest path id first. | `scheduler/controller.rs`: a wrapped controller answers 0 while another path is to be used | `scheduling::round_robin_alternates_where_the_library_would_keep_to_the_first_path` |
//! | Acknowledgements of all paths travel on the lowest one, so an idle timeout abandons a path that works. | `heartbeat.rs`: PINGs from both ends on every path | `traps::trap_1_idle_timeout_with_keep_alive_at_one_end_abandons_a_healthy_path` |
//! | More than 1024 gaps in one stream's data end the connection. | `configuration.rs`: a stream's window is 2 MB | `traps::trap_2_too_many_gaps_in_a_stream_end_the_connection` |
//! | Lost large packets collapse the path MTU to 1200 bytes. | GSO packets that fit the interface (`interfaces.rs` of the transport) | `traps::trap_3_lost_large_packets_collapse_the_path_mtu` |
//! | Only a change of a path's status is signalled, and the peer does not act on it. | `path_manager.rs`, `peer_paths.rs`: open as available, then change; follow the peer's status | `traps::trap_4_only_a_change_of_the_status_is_signalled` |
//! | The peer does not replace path ids of paths that it never received a packet on. | `path_manager.rs`: a path that is not answered is waited for | `traps::path_ids_of_unheard_paths_are_not_replaced` |
//! | What was in flight on a closed path is sent again three PTOs later. | `paths/detour.rs`: a last PING by another path's socket | `traps::what_was_in_flight_on_a_closed_path_is_sent_again_after_three_ptos` |
//! | A path's own frames wait while a path of lower id has data and room. | `scheduler/pending_frames.rs`: those before it are passed over once | `scheduling::a_busy_path_leaves_a_new_one_room_to_be_validated` |
//! | Four losses of large packets, each found by a tail loss probe, make a black hole. | `scheduler/small_ping.rs`: small packets among the large ones | `shrink::a_path_that_shrinks_in_mid_transfer_does_not_make_the_application_wait_for_tail_loss_probes` |
//! | Three lost probes of a size end the MTU search below it, in a full queue, too. | `scheduler/mtu_probe.rs`: the third waits for room | `mtu::a_search_in_the_midst_of_slow_start_ends_on_the_mtu_all_the_same` |
//! | The pacer lets out 10 ms of a window's rate at once. | `scheduler/controller.rs`, `pacing_rate`: the initial window leaves at once | `scheduler::controller::tests` in the crate |
//! | Sent data is freed only up to the first byte that is not acknowledged. | `send_buffer.rs`: what the library holds is counted | `withheld::a_client_that_acknowledges_all_but_the_first_packet_does_not_make_a_server_keep_everything` |
//! | A peer may open a path for each that it abandons, and each takes memory until the connection ends. | `paths/known.rs`: bounds on paths and path ids | `churn::a_peer_that_opens_and_abandons_thousands_of_paths_makes_nothing_grow` |
