"""Subscriptions to clients' metrics, and which clients each of them selects (KIP-714). Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from cluster.config.client_metrics import (
    CLIENT_METRICS_SETTINGS,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
    match_parts,
)
from cluster.config.setting import SettingError
from cluster.config.snapshot import Layer, Settings, Source
from cluster.coordinator.groups.consumer.topic_expressions import (
    InvalidExpression,
    TopicExpression,
)
from cluster.model.errors import ErrorCode, Refused

ALL_METRICS: Final = "*"


class Wanted(NamedTuple):
    """What a client is asked for."""

    metrics: tuple[str, ...]
    """Prefixes of names; `*` alone for all, nothing for none."""
    interval_ms: int
    subscription_id: int
    """Changes with the other fields."""


class Subscription(NamedTuple):
    """One client metrics resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, TopicExpression], ...]

    def selects(self, facts: Mapping[str, str]) -> bool:
        """Whether all its expressions match a client; `facts` are by the keys of `match`."""
        return all(expression.matches(facts.get(key, "")) for key, expression in self.match)


def subscription_settings(texts: Mapping[str, str]) -> Settings:
    """The settings of a subscription. Raises Refused for what Kafka refuses too."""
    for key in texts:
        if key not in (METRICS.name, INTERVAL_MS.name, MATCH.name):
            raise Refused(ErrorCode.invalid_request, f"Unknown client metrics configuration: {key}")
    try:
        return Settings(CLIENT_METRICS_SETTINGS, [Layer(Source.DYNAMIC_CLIENT_METRICS, texts)])
    except SettingError as problem:
        code = ErrorCode.invalid_config
        if problem.name == INTERVAL_MS.name and _is_number(texts[INTERVAL_MS.name]):
            code = ErrorCode.invalid_request
        raise Refused(code, str(problem)) from None


def subscription_of(texts: Mapping[str, str]) -> Subscription:
    """The subscription with these settings. Raises Refused."""
    settings = subscription_settings(texts)
    expressions = {}
    for part in settings[MATCH]:
        try:
            key, text = match_parts(part)
            expressions[key] = TopicExpression(text)
        except SettingError as problem:
            raise Refused(ErrorCode.invalid_config, str(problem)) from None
        except InvalidExpression as problem:
            raise Refused(
                ErrorCode.invalid_config, f"Illegal client matching pattern: {part} ({problem})"
            ) from None
    return Subscription(settings[METRICS], settings[INTERVAL_MS], tuple(expressions.items()))


def wanted_of(
    client_instance_id: UUID, facts: Mapping[str, str], subscriptions: Iterable[Subscription]
) -> Wanted:
    """What all subscriptions together ask a client for: the metrics of each, the shortest
    interval.
    """
    selected = [each for each in subscriptions if each.selects(facts)]
    metrics = {name for each in selected for name in each.metrics}
    interval_ms = min([DEFAULT_INTERVAL_MS, *(each.interval_ms for each in selected)])
    names = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    checksum = crc32c(f"[{', '.join(names)}]{interval_ms}".encode()) ^ _hash(client_instance_id)
    return Wanted(names, interval_ms, checksum - (1 << 32) if checksum >> 31 else checksum)


def _hash(value: UUID) -> int:
    high, low = value.int >> 64, value.int & (1 << 64) - 1
    mixed = high ^ low
    return (mixed >> 32 ^ mixed) & 0xFFFFFFFF


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").isdecimal()
