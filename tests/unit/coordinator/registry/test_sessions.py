"""Sessions: timeouts, expiry by buckets, passwords, moving between connections."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.registry.sessions import SessionTable

TICK_MS = 2_000
PASSWORD = b"p" * 16


def expired_ids(table: SessionTable, now_ms: int) -> list[int]:
    return [session.session_id for session in table.expired(now_ms)]


def test_timeouts_are_granted_between_2_and_20_ticks() -> None:
    table = SessionTable(TICK_MS)
    assert table.negotiate_timeout(0) == 4_000
    assert table.negotiate_timeout(10_000) == 10_000
    assert table.negotiate_timeout(1_000_000) == 40_000


@given(timeout_ms=st.integers(4_000, 40_000), heard_ms=st.integers(0, 10**12))
def test_a_session_expires_within_one_tick_after_its_timeout_never_before(
    timeout_ms: int, heard_ms: int
) -> None:
    table = SessionTable(TICK_MS)
    table.open(1, timeout_ms, PASSWORD, heard_ms)
    assert expired_ids(table, heard_ms + timeout_ms) == []
    assert expired_ids(table, heard_ms + timeout_ms + TICK_MS) == [1]


def test_a_heartbeat_gives_the_full_time_again() -> None:
    table = SessionTable(TICK_MS)
    session = table.open(1, 4_000, PASSWORD, 0)
    table.touch(session, 3_999)
    assert expired_ids(table, 7_999) == []
    assert expired_ids(table, 8_000) == [1]
    table.close(1)
    assert expired_ids(table, 99_999) == []
    assert len(table) == 0


def test_all_sessions_get_their_full_time_after_a_pause() -> None:
    table = SessionTable(TICK_MS)
    table.open(1, 4_000, PASSWORD, 0)
    table.open(2, 8_000, PASSWORD, 0)
    table.touch_all(60_000)
    assert expired_ids(table, 63_999) == []
    assert expired_ids(table, 66_000) == [1]


def test_attaching_needs_the_password_and_moves_the_session() -> None:
    table = SessionTable(TICK_MS)
    session = table.open(1, 4_000, PASSWORD, 0)
    assert table.attach(1, b"q" * 16, 4_000, 7, 100) is None
    assert table.attach(2, PASSWORD, 4_000, 7, 100) is None
    assert table.attach(1, PASSWORD, 4_000, 7, 100) == (session, None)
    assert table.attach(1, PASSWORD, 6_000, 8, 200) == (session, 7)
    table.detach(1, 7)
    assert session.connection_id == 8, "the connection that it left cannot take it away"
    table.detach(1, 8)
    assert session.connection_id is None
    assert expired_ids(table, 6_200) == []


def test_ids_always_rise_and_keep_the_top_byte_of_ttl_nodes_free() -> None:
    table = SessionTable(TICK_MS)
    ids = []
    for wall_ms in (1_700_000_000_000, 1_700_000_000_000, 1_600_000_000_000, 2**47):
        session_id = table.choose_id(wall_ms)
        table.open(session_id, 4_000, PASSWORD, 0)
        ids.append(session_id)
    assert ids == sorted(set(ids))
    assert {session_id >> 56 for session_id in ids} == {1}
