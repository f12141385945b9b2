"""Topics in requests of clients: names, new topics, changes of configs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId

METRICS_TOPIC: Final = "__cluster_metrics"
"""The topic of the brokers' metric records. Not internal to clients, since Spark's connector skips
internal ones."""
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
"""The topics that Metadata marks `is_internal` (Kafka: `Topic.isInternal`)."""

TOPIC_NAME_LENGTH_MAX: Final = 249
"""A directory is named after a topic and partition, and has a name of at most 255 bytes."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """One item of CreateTopics; -1 stands for the broker's default, `assignment` replaces both."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class TopicAlteration(NamedTuple):
    """New values by key, None for the default; `is_whole`: other keys get the default, too."""

    topic: str
    is_whole: bool
    values: Mapping[str, str | None]


def check_topic_name(name: str) -> None:
    """Raise Refused(invalid_topic_exception) unless Kafka would accept the name."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        reason = (
            f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    if reason is not None:
        raise Refused(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")
