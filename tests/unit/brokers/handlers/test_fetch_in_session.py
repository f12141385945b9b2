"""Fetch sessions with real logs: what an answer has, what wakes a request, what it costs."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.handlers.access import READ_TOPIC
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.model.errors import ErrorCode
from cluster.model.ids import Offset
from cluster.model.quotas import QuotaEntity, QuotaKind
from tests.support.cluster_states import a_partition, a_topic
from tests.support.examples import examples
from tests.support.guarded_broker import SETTINGS, Guarded
from tests.support.handler_requests import a_batch, codes_of, fetched_in, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import fetch_from, produce_to, wanted

ALONE = a_partition([BROKER])
SIZE = len(a_batch(b"x" * 100))


class Client:
    """One connection that fetches from topic `t` in a session."""

    def __init__(
        self, stage: HandlerStage, connection: StageConnection | None = None, **options: Any
    ) -> None:
        self.connection = connection or stage.connect()
        self._options = options
        self.session = 0
        self.epoch = 0

    def ask(self, *partitions: Any, forgotten: tuple[int, ...] = (), **options: Any) -> Any:
        """The next request of the session; its answer, None while it waits."""
        topics = [("t", list(partitions))] if partitions else []
        gone = [("t", list(forgotten))] if forgotten else []
        asked = fetch_from(
            *topics,
            session=(self.session, self.epoch),
            forgotten=gone,
            **{**self._options, **options},
        )
        return self.take(self.connection.call(asked))

    def receive(self) -> Any:
        return self.take(self.connection.receive())

    def take(self, answer: Any) -> Any:
        if answer is None:
            return None
        assert answer.error_code == 0
        self.session = answer.session_id
        self.epoch += 1
        return answer


def append(stage: HandlerStage, *partitions: int) -> None:
    client = stage.connect()
    for partition in partitions:
        answer = client.call(produce_to(("t", partition, a_batch(b"x" * 100)), acks=1))
        assert codes_of(produced_in(answer)) == [0]


def told(answer: Any) -> list[tuple[int, int, int]]:
    """Partition, error code and bytes."""
    return [
        (each.partition_index, int(each.error_code), len(each.records or b""))
        for each in fetched_in(answer)
    ]


def opened(stage: HandlerStage, count: int = 2, **options: Any) -> Client:
    """A session of all partitions, which has read them up to their ends."""
    stage.update(a_topic("t", *[ALONE] * count))
    client = Client(stage, **options)
    assert len(told(client.ask(*map(wanted, range(count))))) == count
    assert told(client.ask()) == []
    return client


# -- waiting ---------------------------------------------------------------------------------------


def test_an_idle_request_waits_and_is_answered_empty(stage: HandlerStage) -> None:
    client = opened(stage)
    assert client.ask(max_wait_ms=500) is None
    assert len(stage.purgatory) == 1
    stage.pass_time(499)
    assert client.receive() is None
    stage.pass_time(1)
    assert told(client.receive()) == []
    assert len(stage.purgatory) == 0


def test_records_wake_a_request(stage: HandlerStage) -> None:
    client = opened(stage)
    assert client.ask(max_wait_ms=500) is None
    append(stage, 1)
    assert told(client.receive()) == [(1, 0, SIZE)]


def test_a_request_waits_for_the_bytes_of_all_partitions(stage: HandlerStage) -> None:
    client = opened(stage, 3)
    assert client.ask(max_wait_ms=500, min_bytes=3 * SIZE) is None
    append(stage, 2, 0)
    assert client.receive() is None
    append(stage, 1)
    assert told(client.receive()) == [(0, 0, SIZE), (1, 0, SIZE), (2, 0, SIZE)]


def test_too_few_bytes_are_sent_at_the_deadline(stage: HandlerStage) -> None:
    client = opened(stage)
    client.ask(max_wait_ms=500, min_bytes=1_000)
    append(stage, 1)
    stage.pass_time(500)
    assert told(client.receive()) == [(1, 0, SIZE)]


def test_a_closed_connection_leaves_its_session_to_others(stage: HandlerStage) -> None:
    client = opened(stage)
    client.ask(max_wait_ms=500)
    client.connection.close()
    append(stage, 0)
    assert len(stage.purgatory) == 0

    client.connection = stage.connect()
    client.epoch += 1
    assert told(client.ask()) == [(0, 0, SIZE)]


def test_two_requests_of_one_session_wait(stage: HandlerStage) -> None:
    """The second connection is answered; what the first one was to get is void."""
    client = opened(stage)
    client.ask(max_wait_ms=500)
    other = stage.connect()
    again = fetch_from(session=(client.session, client.epoch + 1), max_wait_ms=500)
    assert other.call(again) is None
    append(stage, 1)

    first, second = client.connection.receive(), other.receive()
    assert first.error_code == ErrorCode.invalid_fetch_session_epoch
    assert not first.responses
    assert told(second) == [(1, 0, SIZE)]


# -- what an answer has ----------------------------------------------------------------------------


def test_a_moved_high_watermark_alone_is_told(stage: HandlerStage) -> None:
    client = opened(stage)
    append(stage, 0, 1)
    answer = client.ask(wanted(1, 1))
    assert told(answer) == [(0, 0, SIZE), (1, 0, 0)]
    assert [each.high_watermark for each in fetched_in(answer)] == [1, 1]
    assert told(client.ask(wanted(0, 1))) == []


def test_a_moved_log_start_is_told(stage: HandlerStage) -> None:
    client = opened(stage)
    append(stage, 1)
    client.ask(wanted(1, 1))
    partition = stage.partition("t", 1)
    partition.log.advance_log_start_offset(Offset(1))
    stage.events.on_log_start_moved(partition)
    stage.turn()
    (found,) = fetched_in(client.ask())
    assert (found.partition_index, found.log_start_offset) == (1, 1)
    assert told(client.ask()) == []


def test_a_throttled_answer_leaves_its_news_to_the_next(stage: HandlerStage) -> None:
    client = opened(stage)
    append(stage, 0, 1)
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.FETCH: 10.0}})
    stage.connect().call(fetch_from(("t", [wanted(0)])))

    session = client.session
    answer = client.ask(wanted(1, 1))
    assert answer.throttle_time.total_seconds() > 1
    assert (told(answer), answer.session_id) == ([], session)
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {}})
    assert told(client.ask()) == [(0, 0, SIZE), (1, 0, 0)]


def test_a_throttled_opening_opens_nothing(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    append(stage, 0)
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.FETCH: 10.0}})
    stage.connect().call(fetch_from(("t", [wanted(0)])))

    answer = Client(stage).ask(wanted(0))
    assert (told(answer), answer.session_id) == ([], 0)
    assert len(stage.services.data.fetch_sessions) == 0


def test_partitions_are_found_again_when_the_leader_returns(stage: HandlerStage) -> None:
    both = [BROKER, OTHER]
    stage.update(a_topic("t", a_partition(both), a_partition(both)))
    client = Client(stage, version=10)
    client.ask(wanted(0), wanted(1))
    client.ask(max_wait_ms=500)
    away = a_partition(both, leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic("t", a_partition(both), away))

    gone = int(ErrorCode.not_leader_or_follower)
    assert told(client.receive()) == [(1, gone, 0)]
    assert told(client.ask(max_wait_ms=500)) == [(1, gone, 0)]
    back = a_partition(both, leader_epoch=2, partition_epoch=2)
    stage.update(a_topic("t", a_partition(both), back))
    assert told(client.ask()) == [(1, 0, 0)]  # the end of the error is news
    assert told(client.ask()) == []


def test_refused_requests_are_counted_by_error(tmp_path: Path) -> None:
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with HandlerStage(tmp_path, counters=counters) as stage:
        answer = stage.connect().call(fetch_from(session=(77, 1)))
        assert answer.error_code == ErrorCode.fetch_session_id_not_found
        counters.store()
        counted = read_memory(memoryview(counters.stats.memory)).values
        (name,) = [key for key in counted if "error=FETCH_SESSION_ID_NOT_FOUND" in key]
        assert ("request=Fetch" in name, counted[name]) == (True, 1)


# -- rights ----------------------------------------------------------------------------------------


def test_a_session_is_authorized_with_each_request(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, SETTINGS) as stage:
        guarded = Guarded(stage)
        stage.update(a_topic("t", ALONE, ALONE))
        guarded.grant((READ_TOPIC, "t"))
        client = Client(stage, connection=guarded.client())
        client.ask(wanted(0), wanted(1))
        client.ask()

        guarded.revoke_all()
        denied = int(ErrorCode.topic_authorization_failed)
        for _ in range(2):
            answer = client.ask(max_wait_ms=500)
            assert told(answer) == [(0, denied, 0), (1, denied, 0)]
        guarded.grant((READ_TOPIC, "t"))
        assert told(client.ask()) == [(0, 0, 0), (1, 0, 0)]
        assert told(client.ask()) == []


def test_a_session_is_read_with_the_rights_of_who_asks(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, SETTINGS) as stage:
        guarded = Guarded(stage)
        stage.update(a_topic("t", ALONE))
        client = Client(stage, connection=guarded.client("admin"))
        client.ask(wanted(0))
        assert told(client.ask()) == []
        client.connection = guarded.client("mallory")
        assert told(client.ask()) == [(0, int(ErrorCode.topic_authorization_failed), 0)]


# -- cost ------------------------------------------------------------------------------------------


def test_an_idle_request_looks_at_no_partition(stage: HandlerStage) -> None:
    client = opened(stage, 50)
    (session,) = [stage.services.data.fetch_sessions.find(client.session)]
    assert session is not None
    assert not session.unread
    client.ask(max_wait_ms=500)
    assert len(stage.purgatory) == 1
    append(stage, 7)
    assert [each.wanted.index for each in session.unread] == [7]


# -- any history -----------------------------------------------------------------------------------

PARTITIONS = 3
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.sampled_from(["commit", "delete", "away", "back"]), st.integers(0, 1)),
    st.tuples(st.just("seek"), st.integers(0, PARTITIONS - 1), st.integers(0, 4)),
    st.tuples(st.just("forget"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("ask"), st.integers(0, 1), st.sampled_from([1, 2 * SIZE, 1 << 20])),
)


@examples(60)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_a_session_tells_what_full_requests_would(steps: list[Any]) -> None:
    """Partition 0 has another replica, whose progress moves its high watermark."""
    with TemporaryDirectory() as directory, HandlerStage(Path(directory)) as stage:
        History(stage).run(steps)


class History:
    """A client with a session, and what it knows; it asks without a session as well."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.epoch = 0
        self.is_led = True
        self._show(is_led=True)
        self.client = Client(stage)
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.changes = dict(self.offsets)
        self.forgotten: set[int] = set()
        self.known: dict[int, tuple[int, int]] = {}

    def _show(self, *, is_led: bool) -> None:
        self.epoch += 1
        leader = BROKER if is_led else OTHER
        shared = a_partition([BROKER, OTHER], None, leader, self.epoch, self.epoch)
        self.stage.update(a_topic("t", shared, *[ALONE] * (PARTITIONS - 1)))
        self.is_led = is_led

    def run(self, steps: list[Any]) -> None:
        self.ask(0, 1 << 20)
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
        self.ask(0, 1 << 20)
        self.ask(0, 1 << 20)

    def append(self, number: int) -> None:
        if number or self.is_led:
            append(self.stage, number)

    def commit(self, lag: int) -> None:
        partition = self.stage.partition("t")
        if self.is_led:
            end = max(0, partition.log.log_end_offset - lag)
            self.stage.follower_fetches(OTHER, partition, end)

    def delete(self, number: int) -> None:
        partition = self.stage.partition("t", number)
        if partition.leader is not None:
            start = min(partition.log.log_start_offset + 1, partition.high_watermark)
            partition.log.advance_log_start_offset(Offset(start))
            self.stage.events.on_log_start_moved(partition)
            self.stage.turn()

    def away(self, _: int) -> None:
        self._show(is_led=False)

    def back(self, _: int) -> None:
        self._show(is_led=True)

    def seek(self, number: int, offset: int) -> None:
        self.offsets[number] = self.changes[number] = offset
        self.forgotten.discard(number)

    def forget(self, number: int) -> None:
        if self.offsets.pop(number, None) is not None:
            self.changes.pop(number, None)
            self.forgotten.add(number)

    def ask(self, isolation_level: int, max_bytes: int) -> None:
        """What is told, or known since it was told, is what a full request is answered."""
        if not self.offsets:
            self.seek(0, 0)
        changes = [wanted(number, offset) for number, offset in self.changes.items()]
        options: dict[str, Any] = {"isolation_level": isolation_level}
        answer = self.client.ask(
            *changes, forgotten=tuple(self.forgotten), max_bytes=max_bytes, **options
        )
        found = {each.partition_index: each for each in fetched_in(answer)}
        every = [wanted(number, offset) for number, offset in self.offsets.items()]
        full = self.stage.connect().call(fetch_from(("t", every), **options))
        gone, self.forgotten, self.changes = self.forgotten, set(), {}
        assert not gone & found.keys()
        has_data = False
        for each in fetched_in(full):
            number, size = each.partition_index, len(each.records or b"")
            told_now = found.pop(number, None)
            code = int(each.error_code)
            offsets = each.high_watermark, each.log_start_offset
            if told_now is not None:
                assert (int(told_now.error_code), told_now.high_watermark) == (code, offsets[0])
                got = len(told_now.records or b"")
                has_data = has_data or got > 0
                assert got == size or (got <= size and max_bytes < 1 << 20)
                self.known[number] = offsets
            else:
                assert code == 0
                assert self.known[number] == offsets
                assert size == 0 or max_bytes < 1 << 20
            if size and max_bytes < 1 << 20 and not has_data:
                assert told_now is None or told_now.records
        assert not found
