"""The helper process that repairs logs for a starting broker, one after the other.

`runtime/helper_side.py` runs it. It answers each order with messages: the number of checked bytes,
log lines, then `repaired` or `failed`.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from cluster.log.options import LogOptions
from cluster.log.repair import LogToRepair, repair
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset, TopicPartition

CHECKED: Final = "checked"
LOG_LINE: Final = "log line"
REPAIRED: Final = "repaired"
FAILED: Final = "failed"

Send = Callable[[Mapping[str, Any]], None]


def order(log: LogToRepair, options: LogOptions, wall_ms: WallMs) -> dict[str, Any]:
    """The message that orders one repair."""
    return {
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "directory": os.fspath(log.directory),
        "recovery_point": log.recovery_point,
        "log_start_offset": log.log_start_offset,
        "unchecked_bytes": log.unchecked_bytes,
        "lacks_unsynced": log.lacks_unsynced,
        "options": asdict(options),
        "wall_ms": wall_ms,
    }


def work(fields: Mapping[str, Any], send: Send) -> None:
    """Repair the log that an order names, and send its progress and result."""
    forwarder = _Forwarder(send)
    logger = logging.getLogger("cluster.log")
    level_before = logger.level
    logger.addHandler(forwarder)
    logger.setLevel(logging.INFO)
    try:
        _carry_out(fields, send)
    finally:
        logger.setLevel(level_before)
        logger.removeHandler(forwarder)


def _carry_out(fields: Mapping[str, Any], send: Send) -> None:
    log = LogToRepair(
        TopicPartition(fields["topic"], fields["partition"]),
        Path(fields["directory"]),
        Offset(fields["recovery_point"]),
        Offset(fields["log_start_offset"]),
        fields["unchecked_bytes"],
        fields["lacks_unsynced"],
    )
    try:
        repair(
            log,
            LogOptions(**fields["options"]),
            WallMs(fields["wall_ms"]),
            lambda count: send({"kind": CHECKED, "bytes": count}),
        )
    except StorageFailed as failure:
        send({"kind": FAILED, "why": str(failure)})
    else:
        send({"kind": REPAIRED})


class _Forwarder(logging.Handler):
    """Forwards log records to the broker."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send(
            {
                "kind": LOG_LINE,
                "logger": record.name,
                "level": record.levelno,
                "text": record.getMessage(),
            }
        )
