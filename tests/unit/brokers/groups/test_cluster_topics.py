"""Topics as the group coordinator sees them, and the topics that an update reshapes."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from cluster.brokers.groups.cluster_topics import ClusterTopics
from cluster.coordinator.groups.shared.topics import TopicShape
from cluster.protocol.peer.control import ClusterUpdate
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import HandlerStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        made.update(
            a_topic("a", a_partition([2])), a_topic("b", a_partition([2]), a_partition([2]))
        )
        yield made


@pytest.fixture
def topics(stage: HandlerStage) -> ClusterTopics:
    return ClusterTopics(stage.metadata)


def test_topics_are_those_of_the_metadata_cache(stage: HandlerStage, topics: ClusterTopics) -> None:
    shape = topics.shape("b")
    assert shape == TopicShape(stage.metadata.topics["b"].topic_id, 2)
    assert topics.name(shape.topic_id) == "b"
    assert topics.shape("c") is None
    assert topics.name(UUID(int=1)) is None
    assert sorted(topics.names()) == ["a", "b"]


@pytest.mark.parametrize(
    ("update", "reshaped"),
    [
        ({}, set()),
        ({"topics": [a_topic("a", a_partition([3]))]}, set()),
        ({"topics": [a_topic("a", a_partition([2]), a_partition([2]))]}, {"a"}),
        ({"topics": [a_topic("c", a_partition([2]))]}, {"c"}),
        ({"deleted": ("a",)}, {"a"}),
        ({"topics": [a_topic("a", a_partition([2]))], "is_full": True}, {"b"}),
        ({"is_full": True}, {"a", "b"}),
    ],
)
def test_an_update_reshapes_the_topics_it_creates_enlarges_or_deletes(
    stage: HandlerStage,
    topics: ClusterTopics,
    update: dict[str, object],
    reshaped: set[str],
) -> None:
    metadata = stage.metadata
    made = ClusterUpdate(
        controller=metadata.controller_id,
        controller_epoch=metadata.controller_epoch,
        broker_epoch=stage.core.membership.registration.epoch,
        is_full=bool(update.get("is_full")),
        brokers=(),
        topics=tuple(update.get("topics", ())),  # type: ignore[arg-type]  # a list of topics
        deleted=update.get("deleted", ()),  # type: ignore[arg-type]  # names
    )
    assert topics.reshaped_by(made) == reshaped
