"""What `groups` asks the cluster for, against a client that answers at once."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.tools.groups import requests
from cluster.tools.groups.requests import Place


class FakeAdmin:
    """Says 7 for every partition, and remembers which timestamps it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def list_offsets(self, asked: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        del request_timeout
        answers = {}
        for place, spec in asked.items():
            self.asked.append(spec)
            answers[place] = Future[Any]()
            answers[place].set_result(SimpleNamespace(offset=7))
        return answers


@pytest.mark.parametrize(("timestamp_ms", "asked_ms"), [(5, 5), (0, 0), (-1, 0), (-(10**14), 0)])
def test_a_time_before_1970_is_not_taken_for_the_end(
    timestamp_ms: int, asked_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confluent_kafka.admin.OffsetSpec.for_timestamp", lambda ms: ms)
    client: Any = FakeAdmin()
    assert requests.offsets_at(client, [Place("t", 0)], timestamp_ms) == {Place("t", 0): 7}
    assert client.asked == [asked_ms]
