"""Options and ports for coordinators on the broker of a `HandlerStage`."""

from typing import Any

from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.model.error_codes import ErrorCode
from cluster.records.batch import Compression
from tests.support.handler_stage import HandlerStage


def coordinator_options(topic: str, **others: Any) -> CoordinatorOptions:
    options = {
        "invalid_key": ErrorCode.invalid_request,
        "load_buffer_bytes": 1 << 20,
        "append_timeout_ms": 5_000,
        "codec": Compression.NONE,
        **others,
    }
    return CoordinatorOptions(topic, **options)


def coordinator_ports(stage: HandlerStage) -> CoordinatorPorts:
    return CoordinatorPorts(
        stage.core.replication.internal_topics,
        stage.metadata,
        stage.slices,
        stage.clock,
        stage.loop,
    )
