"""The list of topics asks for the cleanup policies of some topics at a time."""

from pathlib import Path
from typing import Any

import pytest

from cluster.client.topic_requests import ClusterFacts, TopicFacts
from cluster.config.snapshot import Source
from cluster.dashboard.topics import reader
from cluster.dashboard.topics.reader import POLICIES_AT_ONCE, TopicReader
from cluster.datadir.paths import DataDir
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.protocol.messages import DescribeConfigsResourceResult

COUNT = 2 * POLICIES_AT_ONCE + 10
NAMES = [f"t{number:04}" for number in range(COUNT)]


class Brokers:
    """Answers in place of brokers; records which policies are asked for."""

    def __init__(self) -> None:
        self.names = NAMES
        self.asked: list[list[str]] = []
        self.is_silent = False

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def any(self, ask: Any) -> Any:
        return ask(self)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()

    def facts(_client: Any) -> ClusterFacts:
        return ClusterFacts(0, tuple(TopicFacts(name, False, ()) for name in made.names))

    def configs(_client: Any, names: list[str], _keys: list[str]) -> Any:
        made.asked.append(list(names))
        if made.is_silent:
            raise UserError("no answer")
        return {
            name: (
                DescribeConfigsResourceResult(
                    name="cleanup.policy",
                    value="compact",
                    read_only=False,
                    config_source=Source.DEFAULT,
                    is_sensitive=False,
                    synonyms=(),
                    documentation=None,
                ),
            )
            for name in names
        }

    monkeypatch.setattr(reader, "AskedBrokers", lambda *_: made)
    monkeypatch.setattr(reader, "cluster_facts", facts)
    monkeypatch.setattr(reader, "topic_configs", configs)
    return made


def policies(found: dict[str, Any]) -> list[str | None]:
    return [each["policy"] for each in found["topics"]]


def test_policies_are_read_for_some_topics_at_a_time(brokers: Brokers, tmp_path: Path) -> None:
    topics = TopicReader(DataDir(tmp_path))

    def read(now_ms: int) -> list[str | None]:
        return policies(topics.all({"brokers": []}, [], MonotonicMs(now_ms)))

    assert read(0).count("compact") == POLICIES_AT_ONCE
    assert read(3_000).count(None) == 10
    assert read(6_000) == ["compact"] * COUNT
    assert [name for names in brokers.asked for name in names] == NAMES
    brokers.asked.clear()
    read(9_000)
    assert brokers.asked == []
    brokers.names = ["new", *NAMES[1:]]
    assert read(12_000) == ["compact"] * COUNT
    assert brokers.asked[-1] == ["new", *NAMES[1:POLICIES_AT_ONCE]]  # read longest ago
    read(23_000)
    assert brokers.asked[-1] == NAMES[POLICIES_AT_ONCE : 2 * POLICIES_AT_ONCE]


def test_a_broker_that_tells_no_policies_leaves_the_list(brokers: Brokers, tmp_path: Path) -> None:
    brokers.is_silent = True
    topics = TopicReader(DataDir(tmp_path))
    assert policies(topics.all({"brokers": []}, [], MonotonicMs(0))) == [None] * COUNT
