use pathbench_record::text::*;

#[test]
fn terminals_get_no_commands_and_no_floods() {
    assert_eq!(plain("\u{1b}[2Jbusy\r\n\u{202e}ysub ü", 100), " [2Jbusy   ysub ü");
    assert_eq!(plain(&"ü".repeat(600), 500).chars().count(), 500);
}
