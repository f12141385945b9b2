"""Two brokers that replicate over real sockets, each on its own loop and clock."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.brokers.replication import replication_link
from cluster.brokers.replication.partition import Partition
from cluster.model.cluster import BrokerRegistration, TopicState
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.compact import (
    ANSWER_HEAD,
    COMPACT_FETCH,
    COMPACT_REFUSAL,
    FETCH_HEAD,
)
from cluster.runtime.local_link import UnixConnection, UnixListener, UnixSockets, local_address
from cluster.runtime.loop import EventLoop
from cluster.runtime.peer_sockets import (
    LocalConnection,
    LocalSockets,
    OnLocalClosed,
    OnLocalMessage,
)
from cluster.runtime.zmq_link import Dealer
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.fake_sockets import NoLocalSockets
from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to
from tests.support.link_keys import Acquaintance
from tests.support.turning import DEADLINE_S

BOTH = [BROKER, OTHER]


class Side:
    """A broker with its replication link."""

    def __init__(
        self,
        brokers: Acquaintance,
        root: Path,
        number: int,
        machine: str,
        local_sockets: LocalSockets,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.number = number
        self._brokers = brokers
        self._root = root / str(number)
        self._machine = machine
        self._local = local_sockets
        self._settings = settings
        self.start()

    def start(self) -> None:
        self.context = self._brokers.context()
        self.stage = HandlerStage(
            self._root,
            self._settings,
            number=self.number,
            sockets=self.context,
            local_sockets=self._local,
            machine=self._machine,
        )
        self.link = self.stage.core.replication.link

    def restart(self) -> None:
        """In another process, as it were: the files stay, endpoint and keys are others."""
        self.link.close()
        self.context.close()
        self.stage.table.close()
        self.stage.directory.close()
        self.stage.loop.close()
        self.start()

    def registration(self) -> BrokerRegistration:
        return replace(a_broker(self.number), replication_endpoint=self.link.endpoint)

    def partition(self, number: int = 0) -> Partition:
        return self.stage.partition("t", number)

    def close(self) -> None:
        self.link.close()
        self.context.close()
        self.stage.directory.close()
        self.stage.loop.close()


class Pair:
    def __init__(
        self,
        root: Path,
        machines: tuple[str, str],
        local: LocalSockets,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are the follower's."""
        brokers = Acquaintance()
        self.leader = Side(brokers, root, BROKER, machines[0], local)
        self.follower = Side(brokers, root, OTHER, machines[1], local, settings)

    def close(self) -> None:
        self.leader.close()
        self.follower.close()

    def take(self, topic: TopicState) -> None:
        """Apply the state of a topic on the leader and on the follower."""
        brokers = {BrokerId(s.number): s.registration() for s in (self.leader, self.follower)}
        for side in (self.leader, self.follower):
            roles = side.stage.roles
            for number in topic.partitions:
                partition = TopicPartition(topic.name, number)
                roles.apply_state(partition, topic, brokers, side.stage.loop.now_ms)
            for partition in roles.followed():
                roles.follow_where_it_is(partition, brokers)

    def produce(self, count: int = 1) -> None:
        """Records with acks=all, one after the other."""
        for _ in range(count):
            client = self.leader.stage.connect()
            client.send(produce_to(("t", 0, a_batch()), timeout_ms=60_000))
            self.turn_until(lambda c=client: not c.is_waiting, "the acknowledgement")
            assert codes_of(produced_in(client.receive())) == [0]

    def turn_until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for {what}"
            for side in (self.leader, self.follower):
                side.stage.clock.pass_time(10)
                side.stage.loop.run_once(max_wait_ms=5)


@pytest.fixture(params=["local connection", "same machine", "two machines"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    by_file = request.param != "two machines"
    is_local = request.param == "local connection"
    local = UnixSockets() if is_local else NoLocalSockets()
    made = Pair(tmp_path, ("here", "here" if by_file else "there"), local)
    yield made
    made.close()


def contents(side: Side, number: int = 0) -> bytes:
    log = side.partition(number).log
    end = log.log_end_offset
    return bytes(
        log.read(log.log_start_offset, 1 << 20, upper_offset=end, at_least_one_batch=True).view()
    )


def test_a_batch_is_copied_and_acknowledged(pair: Pair) -> None:
    pair.take(a_topic("t", a_partition(BOTH), a_partition(BOTH)))
    client = pair.leader.stage.connect()
    client.send(produce_to(("t", 0, a_batch(b"a", b"b")), ("t", 1, a_batch()), timeout_ms=60_000))

    pair.turn_until(lambda: not client.is_waiting, "the acknowledgement")

    assert codes_of(produced_in(client.receive())) == [0, 0]
    assert contents(pair.follower, 0) == contents(pair.leader, 0)
    assert contents(pair.follower, 1) == contents(pair.leader, 1)
    pair.turn_until(
        lambda: pair.follower.partition().high_watermark == 2, "the follower's high watermark"
    )
    assert pair.leader.link.sent_bytes == pair.follower.link.received_bytes > 0


@pytest.mark.slow
def test_a_follower_that_is_told_to_stop_stops(pair: Pair) -> None:
    pair.take(a_topic("t", a_partition(BOTH)))
    client = pair.leader.stage.connect()
    client.send(produce_to(("t", 0, a_batch()), timeout_ms=60_000))
    pair.turn_until(lambda: not client.is_waiting, "the acknowledgement")

    pair.follower.link.unfollow(pair.follower.partition().id)
    pair.follower.link.unfollow(pair.follower.partition().id)
    other = pair.leader.stage.connect()
    other.send(produce_to(("t", 0, a_batch()), timeout_ms=1_000))
    pair.turn_until(lambda: not other.is_waiting, "the timeout")

    assert pair.follower.partition().log.log_end_offset == 1


def test_everything_moves_along_to_a_leader_that_restarted(pair: Pair) -> None:
    topic = a_topic("t", a_partition(BOTH), a_partition(BOTH))
    pair.take(topic)
    first = pair.leader.stage.connect()
    first.send(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), timeout_ms=60_000))
    pair.turn_until(lambda: not first.is_waiting, "the acknowledgement")

    pair.leader.restart()
    pair.take(topic)
    second = pair.leader.stage.connect()
    second.send(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), timeout_ms=60_000))
    pair.turn_until(lambda: not second.is_waiting, "the acknowledgement")

    assert codes_of(produced_in(second.receive())) == [0, 0]
    assert [pair.follower.partition(n).log.log_end_offset for n in (0, 1)] == [2, 2]


def test_malformed_fetch_is_ignored(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.take(a_topic("t", a_partition(BOTH)))
    stranger = Dealer(
        pair.leader.context, pair.leader.stage.loop, pair.leader.link.endpoint, lambda _: None
    )
    stranger.send([b"\xc1 nonsense"])
    pair.turn_until(
        lambda: "ignored a replication message" in caplog.text, "the line about the message"
    )

    client = pair.leader.stage.connect()
    client.send(produce_to(("t", 0, a_batch()), timeout_ms=60_000))
    pair.turn_until(lambda: not client.is_waiting, "the acknowledgement")
    stranger.close()


class WatchedSockets:
    """Real local connections; keeps them, and counts what the leader receives by them."""

    def __init__(self) -> None:
        self.connections: list[UnixConnection] = []
        """The followers' ends."""
        self.leader_ends: list[LocalConnection] = []
        """The leader's end for each message that it received."""

    def listen(
        self,
        loop: EventLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> UnixListener | None:
        def receive(connection: LocalConnection, message: bytes | memoryview) -> None:
            self.leader_ends.append(connection)
            on_message(connection, message)

        return UnixSockets().listen(loop, address, receive, on_closed)

    def connect(
        self,
        loop: EventLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> UnixConnection | None:
        made = UnixSockets().connect(loop, address, on_message, on_closed)
        if made is not None:
            self.connections.append(made)
        return made


class LocalPair(Pair):
    """Two brokers of one machine that replicate t-0 by a local connection."""

    def __init__(self, root: Path) -> None:
        self.sockets = WatchedSockets()
        super().__init__(root, ("here", "here"), self.sockets)
        self.take(a_topic("t", a_partition(BOTH)))
        self.produce_locally()

    def produce_locally(self) -> None:
        """Produce until the follower's request comes by a local connection."""
        before, deadline = len(self.sockets.leader_ends), time.monotonic() + DEADLINE_S
        while len(self.sockets.leader_ends) == before:
            assert time.monotonic() < deadline
            self.produce()


@pytest.fixture
def local_pair(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[LocalPair]:
    caplog.set_level("INFO")
    made = LocalPair(tmp_path)
    yield made
    made.close()


def lines_about(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [line for line in caplog.messages if text in line]


FETCHING_LOCALLY = "is on this machine: fetching by a local connection"
FETCHING_BY_ZEROMQ = "is closed: fetching by ZeroMQ"

GARBAGE = [b"?", b"\x01", b"\x02" * 40, b"\x01" * 40, b"\xff" * (16 << 10)]


@pytest.mark.slow  # it waits until the follower may connect again
@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: f"{garbage[0]}-{len(garbage)}")
def test_garbage_for_the_leader_ends_the_connection_and_loses_nothing(
    local_pair: LocalPair, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    (connection,) = local_pair.sockets.connections
    assert connection.send(garbage)
    local_pair.produce(3)
    local_pair.turn_until(lambda: lines_about(caplog, FETCHING_BY_ZEROMQ), "the end")
    assert len(lines_about(caplog, "closed a local connection: ")) == 1
    assert not connection.is_open

    local_pair.produce_locally()  # by another one
    assert len(lines_about(caplog, FETCHING_LOCALLY)) == 1
    assert contents(local_pair.follower) == contents(local_pair.leader)
    assert len(lines_about(caplog, FETCHING_BY_ZEROMQ)) == 1


@pytest.mark.slow  # it waits until the follower may connect again
@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: f"{garbage[0]}-{len(garbage)}")
def test_garbage_for_the_follower_ends_the_connection_and_loses_nothing(
    local_pair: LocalPair, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    assert local_pair.sockets.leader_ends[-1].send(garbage)
    local_pair.produce(3)
    what = f"closed the local connection to leader {BROKER}: "
    local_pair.turn_until(lambda: lines_about(caplog, what), "the end")
    assert len(lines_about(caplog, what)) == 1

    local_pair.produce_locally()
    assert len(lines_about(caplog, FETCHING_LOCALLY)) == 1
    assert contents(local_pair.follower) == contents(local_pair.leader)


def test_a_connection_without_room_is_passed_over(
    local_pair: LocalPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader and the follower use ZeroMQ for what it does not take."""
    count = len(local_pair.sockets.leader_ends)
    monkeypatch.setattr(UnixConnection, "send", lambda *_: False)
    local_pair.produce(3)
    assert len(local_pair.sockets.leader_ends) <= count + 1  # one was under way
    monkeypatch.undo()
    local_pair.produce_locally()
    assert contents(local_pair.follower) == contents(local_pair.leader)
    assert len(local_pair.sockets.connections) == 1


def test_a_leader_that_restarted_is_fetched_from_locally_again(
    local_pair: LocalPair, caplog: pytest.LogCaptureFixture
) -> None:
    local_pair.leader.restart()
    local_pair.take(a_topic("t", a_partition(BOTH)))
    local_pair.produce_locally()
    assert len(lines_about(caplog, FETCHING_LOCALLY)) == 1
    assert contents(local_pair.follower) == contents(local_pair.leader)


def test_a_follower_that_restarted_fetches_locally_again(
    local_pair: LocalPair, caplog: pytest.LogCaptureFixture
) -> None:
    local_pair.follower.restart()
    local_pair.take(a_topic("t", a_partition(BOTH)))
    local_pair.produce_locally()
    assert len(lines_about(caplog, FETCHING_LOCALLY)) == 1
    assert contents(local_pair.follower) == contents(local_pair.leader)


def test_a_stranger_on_the_machine_disturbs_nobody(
    local_pair: LocalPair, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []
    strange = UnixSockets().connect(
        local_pair.follower.stage.loop,
        local_address(local_pair.leader.link.endpoint),
        lambda _, message: heard.append(bytes(message)),
        lambda _: heard.append(b"the end"),
    )
    assert strange is not None
    strange.send(FETCH_HEAD.pack(COMPACT_FETCH, OTHER, 1, 5))  # of a session that is not known
    local_pair.turn_until(lambda: heard, "the refusal")
    assert heard == [ANSWER_HEAD.pack(COMPACT_REFUSAL, 1, 5)]
    strange.send(b"?")
    local_pair.turn_until(lambda: heard[1:], "the end")
    local_pair.produce_locally()
    assert lines_about(caplog, FETCHING_BY_ZEROMQ) == []


def test_a_broker_that_may_not_share_memory_fetches_by_zeromq(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    sockets = WatchedSockets()
    pair = Pair(tmp_path, ("here", "here"), sockets, {"replica.fetch.shared.memory": "false"})
    pair.take(a_topic("t", a_partition(BOTH)))
    pair.produce(3)
    pair.turn_until(lambda: pair.follower.partition().high_watermark == 3, "the high watermark")
    assert sockets.connections == []
    assert lines_about(caplog, FETCHING_LOCALLY) == []
    assert contents(pair.follower) == contents(pair.leader)
    pair.close()


def test_a_leader_whose_local_address_is_taken_is_fetched_from_by_zeromq(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
        monkeypatch.setattr(replication_link, "local_address", lambda _: f"\0milena-{os.getpid()}")
        taken.bind(f"\0milena-{os.getpid()}")  # and nobody listens
        pair = Pair(tmp_path, ("here", "here"), UnixSockets())
        pair.take(a_topic("t", a_partition(BOTH)))
        pair.produce(3)
        assert len(lines_about(caplog, "reach this one by ZeroMQ only")) == 2
        assert lines_about(caplog, FETCHING_LOCALLY) == []
        pair.close()
