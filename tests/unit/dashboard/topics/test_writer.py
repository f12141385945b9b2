"""A message is sent again until a leader answers, as the same batch; and what the page says of one
that was not acknowledged.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.produce_requests import Answer
from cluster.dashboard.topics import writer
from cluster.dashboard.topics.new_message import NewMessage
from cluster.dashboard.topics.writer import write_message
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.records.batch import read_header
from cluster.records.builder import ProducerIdentity

MAYBE = "; the message may have been written: look for it before you send it again"
LOST = UserError("lost the broker at b:1: it closed the connection")


class Cluster:
    """Broker 1, which leads every partition of topic t, and what it answers."""

    def __init__(self, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Answer | Exception] = []
        self.partition_counts: Iterator[int] = iter(())
        self.sent: list[tuple[int, bytes]] = []
        self.producer: Callable[[], ProducerIdentity] = lambda: ProducerIdentity(7, 0, 0)
        self._files = DataDir(files)
        self._seconds = iter(range(1_000_000))
        monkeypatch.setattr(writer, "connect", lambda *_: self)
        monkeypatch.setattr(writer, "topic_facts", self._facts)
        monkeypatch.setattr(writer, "new_producer", lambda _: self.producer())
        monkeypatch.setattr(writer, "produce_body", self._body)
        monkeypatch.setattr(writer, "read_answer", self._read)
        times = SimpleNamespace(
            monotonic=lambda: float(next(self._seconds)),
            time_ns=lambda: next(self._seconds) * 1_000_000,
            sleep=lambda _: None,
        )
        monkeypatch.setattr(writer, "time", times)

    def write(self, key: str | None = "k") -> Any:
        return write_message(self._files, {1: ("b", 1)}, NewMessage("t", key, "v"))

    def problem(self) -> str:
        with pytest.raises(UserError) as caught:
            self.write()
        return str(caught.value)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for_answers(self, _timeout_s: float) -> None:
        pass

    def send(self, *_: Any) -> int:
        return 1

    def receive(self, _correlation_id: int) -> bytes:
        return b""

    def _facts(self, *_: object) -> Any:
        return SimpleNamespace(
            partitions=[SimpleNamespace(leader=1)] * next(self.partition_counts, 1)
        )

    def _body(self, _topic: str, partition: int, batch: bytes, _timeout_ms: int) -> bytes:
        self.sent.append((partition, bytes(batch)))
        return b""

    def _read(self, _body: bytes) -> Answer:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def refused(code: ErrorCode) -> Answer:
    return Answer(code, -1, "")


@pytest.mark.parametrize(
    "first", [LOST, refused(ErrorCode.not_leader_or_follower)], ids=["lost", "moved"]
)
def test_a_message_in_doubt_is_sent_again_as_the_same_batch_of_an_idempotent_producer(
    cluster: Cluster, first: Answer | Exception
) -> None:
    cluster.answers = [first, Answer(ErrorCode.none, 12, "")]
    cluster.partition_counts = iter([3, 50])  # meanwhile partitions were added
    partition = cluster.write()["partition"]
    assert len(cluster.sent) == 2
    assert cluster.sent[0] == cluster.sent[1]
    assert cluster.sent[0][0] == partition < 3
    header = read_header(cluster.sent[0][1])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.request_timed_out, "written, but not acknowledged by enough replicas: t-0"),
        (
            ErrorCode.not_enough_replicas_after_append,
            "written, but not acknowledged by enough replicas: t-0",
        ),
        (ErrorCode.not_enough_replicas, "not written: t-0"),
        (ErrorCode.message_too_large, "not written: t-0"),
    ],
)
def test_a_refusal_says_whether_the_leader_has_the_message(
    cluster: Cluster, code: ErrorCode, words: str
) -> None:
    cluster.answers = [refused(code)]
    assert cluster.problem().startswith(words)
    assert len(cluster.sent) == 1


@pytest.mark.parametrize("then", [LOST, refused(ErrorCode.not_enough_replicas)])
def test_a_message_that_was_never_acknowledged_may_have_been_written(
    cluster: Cluster, then: Answer | Exception
) -> None:
    cluster.answers = [LOST, then]
    assert cluster.problem().endswith(MAYBE)
    assert len(cluster.sent) > 1


def test_a_user_who_may_write_nowhere_is_told_the_rule(cluster: Cluster) -> None:
    def denied() -> ProducerIdentity:
        raise Refused(ErrorCode.cluster_authorization_failed)

    cluster.producer = denied
    told = cluster.problem()
    assert told.startswith("not written: the dashboard's user may write to no topic; to allow it: ")
    assert told.endswith("acls --add --allow-principal User:ANONYMOUS --producer --topic t")
    assert not cluster.sent


def test_a_producer_id_is_asked_for_again_while_there_is_none(cluster: Cluster) -> None:
    tries = iter([False, True])

    def new() -> ProducerIdentity:
        if not next(tries):
            raise Refused(ErrorCode.coordinator_not_available)
        return ProducerIdentity(8, 0, 0)

    cluster.producer = new
    cluster.answers = [Answer(ErrorCode.none, 0, "")]
    assert cluster.write() == {"partition": 0, "offset": 0}
