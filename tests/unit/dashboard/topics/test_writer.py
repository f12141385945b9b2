"""What the page says of a message that was not acknowledged."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.produce_requests import Answer
from cluster.dashboard.topics import writer
from cluster.dashboard.topics.new_message import NewMessage
from cluster.dashboard.topics.writer import write_message
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, UserError


class Leader:
    """A connection to broker 1, which leads the only partition."""

    def __enter__(self) -> "Leader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for_answers(self, _timeout_s: float) -> None:
        pass

    def send(self, *_: Any) -> int:
        return 1

    def receive(self, _correlation_id: int) -> bytes:
        return b""


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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: ErrorCode, words: str
) -> None:
    topic = SimpleNamespace(partitions=[SimpleNamespace(leader=1)])
    monkeypatch.setattr(writer, "connect", lambda *_: Leader())
    monkeypatch.setattr(writer, "topic_facts", lambda *_: topic)
    monkeypatch.setattr(writer, "read_answer", lambda _: Answer(code, -1, ""))
    with pytest.raises(UserError, match=f"^{words}"):
        write_message(DataDir(tmp_path), {1: ("b", 1)}, NewMessage("t", None, "v"))
