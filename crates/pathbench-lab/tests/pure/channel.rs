//! Messages between orchestrator and agent.

use pathbench_lab::channel::{ChannelError, receive, send};

#[test]
fn messages_arrive_complete_and_in_order() {
    let mut bytes = Vec::new();
    send(&mut bytes, &"first").unwrap();
    send(&mut bytes, &vec![1, 2, 3]).unwrap();
    let mut reader = bytes.as_slice();
    assert_eq!(receive::<String>(&mut reader).unwrap(), "first");
    assert_eq!(receive::<Vec<u32>>(&mut reader).unwrap(), [1, 2, 3]);
    assert!(matches!(receive::<String>(&mut reader), Err(ChannelError::Closed)));
}

#[test]
fn an_absurd_length_is_rejected_before_allocation() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 0];
    assert!(matches!(receive::<String>(bytes.as_slice()), Err(ChannelError::TooLong(u32::MAX))));
}
