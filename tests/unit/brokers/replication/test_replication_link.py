"""Two brokers that replicate over real ZeroMQ sockets, each on its own loop and clock."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.brokers.replication.partition import Partition
from cluster.model.cluster import BrokerRegistration, TopicState
from cluster.model.ids import BrokerId, TopicPartition
from cluster.runtime.local_link import UnixSockets
from cluster.runtime.peer_sockets import LocalSockets
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
    ) -> None:
        self.number = number
        self._brokers = brokers
        self._root = root / str(number)
        self._machine = machine
        self._local = local_sockets
        self.start()

    def start(self) -> None:
        self.context = self._brokers.context()
        self.stage = HandlerStage(
            self._root,
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
    def __init__(self, root: Path, machines: tuple[str, str], local: LocalSockets) -> None:
        brokers = Acquaintance()
        self.leader = Side(brokers, root, BROKER, machines[0], local)
        self.follower = Side(brokers, root, OTHER, machines[1], local)

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
    made.leader.close()
    made.follower.close()


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
