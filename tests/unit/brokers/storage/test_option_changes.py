"""Settings of a broker that change while it runs reach every log that follows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.assembly.options import log_options
from cluster.config import broker as keys
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.dynamic import CLUSTER_WIDE, OWN, applied
from cluster.config.setting import Setting, Update
from cluster.config.settings import broker_settings
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.turning import turn_until

MANY = 100


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


def change(stage: HandlerStage, **texts: str) -> None:
    values = {key.replace("_", "."): text for key, text in texts.items()}
    live = stage.core.foundation.live
    live.replace(applied(live.started, {CLUSTER_WIDE: values}).settings)


def segment_bytes(stage: HandlerStage, topic: str) -> set[int]:
    return {partition.log.options.segment_bytes for partition in stage.table.of_topics([topic])}


def test_logs_follow_the_broker_except_where_their_topic_has_a_value(stage: HandlerStage) -> None:
    stage.update(
        a_topic("follows", a_partition([BROKER, OTHER])),
        a_topic("own", a_partition([BROKER]), configs={"segment.bytes": "5000"}),
    )
    change(stage, log_segment_bytes="7000", min_insync_replicas="2")

    assert segment_bytes(stage, "follows") == {7_000}
    assert segment_bytes(stage, "own") == {5_000}
    assert stage.partition("follows").min_insync_replicas == 2
    assert stage.core.foundation.live[keys.LOG_SEGMENT_BYTES] == 7_000

    change(stage)
    assert segment_bytes(stage, "follows") == {1 << 30}
    assert stage.partition("follows").min_insync_replicas == 1


def test_a_new_partition_has_the_changed_settings(stage: HandlerStage) -> None:
    stage.update(a_topic("first", a_partition([BROKER])))
    change(stage, log_segment_bytes="7000")
    stage.update(a_topic("later", a_partition([BROKER])))
    assert segment_bytes(stage, "later") == {7_000}


def test_many_logs_are_changed_in_slices_and_the_newest_change_wins(stage: HandlerStage) -> None:
    stage.update(a_topic("many", *[a_partition([BROKER])] * MANY))
    turn_until(stage.loop, lambda: len(stage.table) == MANY, "the replicas")

    change(stage, log_segment_bytes="7000")
    assert segment_bytes(stage, "many") == {7_000, 1 << 30}
    change(stage, log_segment_bytes="8000")
    turn_until(stage.loop, lambda: segment_bytes(stage, "many") == {8_000}, "the newest")
    assert stage.slices.is_idle


ELSEWHERE: dict[str, str] = {
    "unclean.leader.election.enable": "the controller reads it at each election",
    "max.connections": "the server is told",
    "max.connections.per.ip": "the server is told",
    "max.connections.per.ip.overrides": "the server is told",
    "max.connection.creation.rate": "the server is told",
    "log.cleaner.threads": "the cleaner reads it at each look",
    "log.cleaner.io.max.bytes.per.second": "the cleaner reads it at each look",
    "log.cleaner.dedupe.buffer.size": "the cleaner reads it at each look",
    "log.cleaner.io.buffer.size": "the cleaner reads it at each look",
    "log.cleaner.io.buffer.load.factor": "the cleaner reads it at each look",
    "log.cleaner.backoff.ms": "the cleaner reads it at each look",
    "milena.log.scrub.interval.ms": "the scrubber reads it at each look",
    "milena.log.scrub.max.bytes.per.second": "the scrubber reads it at each look",
    "leader.replication.throttled.rate": "the replication throttles are told",
    "follower.replication.throttled.rate": "the replication throttles are told",
    "milena.metrics.topic.client.produce": "Produce reads it at each request",
    "transaction.partition.verification.enable": "Produce reads it at each request",
    "num.recovery.threads.per.data.dir": "a start reads it, before the logs are opened",
}
"""Settings that change in use and are no options of logs, and how they reach who uses them."""


@pytest.mark.parametrize(
    "setting",
    [s for s in BROKER_SETTINGS if s.update is Update.CLUSTER_WIDE and s.effect.is_read],
    ids=lambda setting: setting.name,
)
def test_every_setting_that_changes_in_use_changes_logs_or_reaches_them_otherwise(
    setting: Setting[Any],
) -> None:
    started = broker_settings({})
    texts = ("true", "LogAppendTime", "gzip", "compact", "0.25", "7", "4096", "5000000", "::1:7")
    found = [applied(started, {OWN: {setting.name: text}}) for text in texts]
    others = [each.settings for each in found if not each.problems]
    assert others, "none of the texts is a value of it"
    reaches_logs = any(log_options(one, {}) != log_options(started, {}) for one in others)
    assert reaches_logs is (setting.name not in ELSEWHERE)
