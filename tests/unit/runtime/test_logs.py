from cluster.runtime.logs import set_aside


def test_a_log_that_has_grown_large_is_set_aside_once(tmp_path):
    log_file = tmp_path / "broker-0.log"
    set_aside(log_file, larger_than_bytes=10)
    log_file.write_text("x" * 10)
    set_aside(log_file, larger_than_bytes=10)
    assert log_file.read_text() == "x" * 10
    for letter in "yz":
        log_file.write_text(letter * 11)
        set_aside(log_file, larger_than_bytes=10)
        assert not log_file.exists()
        assert (tmp_path / "broker-0.log.1").read_text() == letter * 11
    assert [path.name for path in tmp_path.iterdir()] == ["broker-0.log.1"]


def test_a_log_that_cannot_be_renamed_stays(tmp_path):
    log_file = tmp_path / "broker-0.log"
    log_file.write_text("x" * 11)
    (tmp_path / "broker-0.log.1").mkdir()
    set_aside(log_file, larger_than_bytes=10)
    assert log_file.read_text() == "x" * 11
