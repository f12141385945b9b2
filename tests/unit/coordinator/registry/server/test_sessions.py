"""Sessions: timeouts, expiry by buckets, passwords, moving between connections."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cluster.coordinator.registry.server.sessions import SessionTable
from cluster.model.clocks import MonotonicMs, WallMs

TICK_MS = 2_000
PASSWORD = b"p" * 16


def expired_ids(table: SessionTable, now_ms: MonotonicMs) -> list[int]:
    return [session.session_id for session in table.expired(now_ms)]


def test_timeouts_are_granted_between_2_and_20_ticks() -> None:
    table = SessionTable(TICK_MS)
    assert table.negotiate_timeout(0) == 4_000
    assert table.negotiate_timeout(10_000) == 10_000
    assert table.negotiate_timeout(1_000_000) == 40_000


@given(timeout_ms=st.integers(4_000, 40_000), heard_ms=st.integers(0, 10**12))
def test_a_session_expires_within_one_tick_after_its_timeout_never_before(
    timeout_ms: int, heard_ms: MonotonicMs
) -> None:
    table = SessionTable(TICK_MS)
    table.open(1, timeout_ms, PASSWORD, heard_ms)
    assert expired_ids(table, MonotonicMs(heard_ms + timeout_ms)) == []
    assert expired_ids(table, MonotonicMs(heard_ms + timeout_ms + TICK_MS)) == [1]


def test_a_heartbeat_gives_the_full_time_again() -> None:
    table = SessionTable(TICK_MS)
    session = table.open(1, 4_000, PASSWORD, MonotonicMs(0))
    table.touch(session, MonotonicMs(3_999))
    assert expired_ids(table, MonotonicMs(7_999)) == []
    assert expired_ids(table, MonotonicMs(8_000)) == [1]
    table.close(1)
    assert expired_ids(table, MonotonicMs(99_999)) == []
    assert len(table) == 0


def test_all_sessions_get_their_full_time_after_a_pause() -> None:
    table = SessionTable(TICK_MS)
    table.open(1, 4_000, PASSWORD, MonotonicMs(0))
    table.open(2, 8_000, PASSWORD, MonotonicMs(0))
    table.touch_all(MonotonicMs(60_000))
    assert expired_ids(table, MonotonicMs(63_999)) == []
    assert expired_ids(table, MonotonicMs(66_000)) == [1]


def test_attaching_needs_the_password_and_moves_the_session() -> None:
    table = SessionTable(TICK_MS)
    session = table.open(1, 4_000, PASSWORD, MonotonicMs(0))
    assert table.attach(1, b"q" * 16, 4_000, 7, MonotonicMs(100)) is None
    assert table.attach(2, PASSWORD, 4_000, 7, MonotonicMs(100)) is None
    assert table.attach(1, PASSWORD, 4_000, 7, MonotonicMs(100)) == (session, None)
    assert table.attach(1, PASSWORD, 6_000, 8, MonotonicMs(200)) == (session, 7)
    table.detach(1, 7)
    assert session.connection_id == 8, "the connection that it left cannot take it away"
    table.detach(1, 8)
    assert session.connection_id is None
    assert expired_ids(table, MonotonicMs(6_200)) == []


def test_ids_always_rise_and_keep_the_top_byte_of_ttl_nodes_free() -> None:
    table = SessionTable(TICK_MS)
    ids = []
    for wall_ms in (1_700_000_000_000, 1_700_000_000_000, 1_600_000_000_000, 2**47):
        session_id = table.choose_id(WallMs(wall_ms))
        table.open(session_id, 4_000, PASSWORD, MonotonicMs(0))
        ids.append(session_id)
    assert ids == sorted(set(ids))
    assert {session_id >> 56 for session_id in ids} == {1}


class ModelSession:
    """What a session is, said as plainly as possible."""

    def __init__(self, timeout_ms: int, heard_ms: MonotonicMs) -> None:
        self.timeout_ms = timeout_ms
        self.heard_ms = heard_ms
        self.connection_id: int | None = None


class SessionsAgainstModel(RuleBasedStateMachine):
    """Any mix of clients that come, go, return, move and fall silent."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SessionTable(TICK_MS)
        self.model: dict[int, ModelSession] = {}
        self.ever: list[int] = []
        self.now_ms = MonotonicMs(1_000_000)

    def _any_id(self, pick: int) -> int:
        return self.ever[pick % len(self.ever)] if self.ever else 404

    @rule(wished_ms=st.integers(0, 60_000))
    def a_client_comes(self, wished_ms: int) -> None:
        session_id = self.table.choose_id(WallMs(self.now_ms))
        assert session_id not in self.ever
        timeout_ms = self.table.negotiate_timeout(wished_ms)
        self.table.open(session_id, timeout_ms, PASSWORD, self.now_ms)
        self.model[session_id] = ModelSession(timeout_ms, self.now_ms)
        self.ever.append(session_id)

    @rule(pick=st.integers(0, 20), connection_id=st.integers(1, 4), knows_password=st.booleans())
    def a_client_returns(self, pick: int, connection_id: int, knows_password: bool) -> None:
        session_id = self._any_id(pick)
        known = self.model.get(session_id)
        password = PASSWORD if knows_password else b"q" * 16
        timeout_ms = 4_000 if known is None else known.timeout_ms
        attached = self.table.attach(session_id, password, timeout_ms, connection_id, self.now_ms)
        if known is None or not knows_password:
            assert attached is None
            return
        assert attached is not None
        assert attached[0].session_id == session_id
        assert attached[1] == known.connection_id
        known.connection_id = connection_id
        known.heard_ms = self.now_ms

    @rule(pick=st.integers(0, 20), connection_id=st.integers(1, 4))
    def a_connection_breaks(self, pick: int, connection_id: int) -> None:
        session_id = self._any_id(pick)
        self.table.detach(session_id, connection_id)
        known = self.model.get(session_id)
        if known is not None and known.connection_id == connection_id:
            known.connection_id = None

    @rule(pick=st.integers(0, 20))
    def a_client_is_heard_of(self, pick: int) -> None:
        session = self.table.find(self._any_id(pick))
        if session is not None:
            self.table.touch(session, self.now_ms)
            self.model[session.session_id].heard_ms = self.now_ms

    @rule(pick=st.integers(0, 20))
    def a_client_closes(self, pick: int) -> None:
        session_id = self._any_id(pick)
        self.table.close(session_id)
        self.model.pop(session_id, None)

    @rule(passed_ms=st.integers(1, 15_000))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms = MonotonicMs(self.now_ms + passed_ms)
        for session_id in expired_ids(self.table, self.now_ms):
            gone = self.model.pop(session_id)
            assert self.now_ms > gone.heard_ms + gone.timeout_ms
            self.table.close(session_id)

    @invariant()
    def the_same_sessions_live(self) -> None:
        assert {s.session_id: s.connection_id for s in self.table} == {
            session_id: known.connection_id for session_id, known in self.model.items()
        }
        assert len(self.table) == len(self.model)

    @invariant()
    def nobody_outlives_its_time_by_more_than_a_tick(self) -> None:
        for known in self.model.values():
            assert self.now_ms < known.heard_ms + known.timeout_ms + TICK_MS


TestSessionsAgainstModel = SessionsAgainstModel.TestCase
