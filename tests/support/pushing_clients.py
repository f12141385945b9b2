"""Clients that pushed metrics, as brokers list them."""

from collections.abc import Sequence

from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.pushed_metrics import (
    MeasuredLatency,
    PushedLabel,
    PushedMetricsAnswer,
    PushedValue,
    PushingClient,
)

LATENCY = "org.apache.kafka.producer.node.request.latency"


def pushed_labels(labels: dict[str, str]) -> tuple[PushedLabel, ...]:
    return tuple(PushedLabel(*each) for each in labels.items())


def pushed_value(
    name: str, value: float, labels: dict[str, str] | None = None, *, is_counter: bool = False
) -> PushedValue:
    return PushedValue(name, pushed_labels(labels or {}), value, is_counter)


def pushing_client(
    *values: PushedValue,
    instance: str = "id",
    client_id: str = "c",
    labels: dict[str, str] | None = None,
    ts_ms: int = 1,
    is_closed: bool = False,
) -> PushingClient:
    return PushingClient(
        *(instance, client_id, "librdkafka", "2.16.0", "10.0.0.7", "ann"),
        pushed_labels(labels or {}),
        *(ts_ms, 1, 0, is_closed, values),
    )


def pushed_answer(
    *clients: PushingClient,
    broker: int = 0,
    left_out: int = 0,
    measured: Sequence[MeasuredLatency] = (),
) -> PushedMetricsAnswer:
    return PushedMetricsAnswer(ErrorCode.none, broker, 5_000, clients, left_out, tuple(measured))
