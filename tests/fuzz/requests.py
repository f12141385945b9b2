"""Well-formed requests of every API and version that a broker advertises, with values by chance.

They are kio's, so that no mistake of ours is in both the encoder and the decoder.
"""

import uuid
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, get_args, get_type_hints

from kio.index import load_request_schema

from cluster.brokers.dispatch.table import HANDLERS
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.broker_probes import batch_of

EVERY_VERSION: Final = [
    (handler.api.key, version)
    for handler in HANDLERS
    if isinstance(handler.api.key, ApiKey)
    for version in range(handler.api.min_version, handler.api.max_version + 1)
]
_CHANGES_TOPICS: Final = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
}
"""In these requests topics never exist, so that a run does not change the topics it uses."""
_INTEGERS: Final = (0, 0, 0, 1, 1, -1, 2, 3, 100, 2**7 - 1)
_TEXTS: Final = ("", "a", "no such", "nl\n2026-01-01 ERROR forged: line", "\x1b[31m", "é" * 20)
_BATCHES: Final = [bytes(batch_of(*[b"value"] * count)) for count in (1, 3, 50)]
_INTEGER_KINDS: Final = ("int8", "int16", "uint16", "int32", "uint32", "int64")


def random_request(random: Random, key: ApiKey, version: int, topic: str) -> Any:
    """One request; where a topic is named, it is that one half of the time."""
    return _Values(random, key, topic).of(load_request_schema(key, version))


class _Values:
    def __init__(self, random: Random, key: ApiKey, topic: str) -> None:
        self._random = random
        self._is_harmless = key not in _CHANGES_TOPICS
        self._topic = topic

    def of(self, schema: Any) -> Any:
        hints = get_type_hints(schema)
        return schema(
            **{
                each.name: self._field(hints[each.name], each.metadata.get("kafka_type", ""))
                for each in fields(schema)
            }
        )

    def _field(self, hint: Any, kafka_type: str) -> Any:
        choices = get_args(hint)
        if type(None) in choices:
            if self._random.random() < 0.15:
                return None
            hint = next(each for each in choices if each is not type(None))
            choices = get_args(hint)
        if getattr(hint, "__origin__", None) is tuple:
            count = self._random.choice((0, 1, 1, 1, 2, 5))
            return tuple(self._field(choices[0], kafka_type) for _ in range(count))
        return self.of(hint) if is_dataclass(hint) else self._value(kafka_type)

    def _value(self, kafka_type: str) -> Any:
        random = self._random
        if kafka_type in _INTEGER_KINDS:
            value = random.choice(_INTEGERS)
            return abs(value) if kafka_type.startswith("u") else value
        match kafka_type:
            case "string":
                if not self._is_harmless:
                    return "no/" + random.choice(_TEXTS)
                return self._topic if random.random() < 0.5 else random.choice(_TEXTS)
            case "bool":
                return random.random() < 0.5
            case "float64":
                return 1e12
            case "uuid":
                return random.choice((None, uuid.UUID(int=random.getrandbits(128))))
            case "records":
                return random.choice((*_BATCHES, *_BATCHES, b"", random.randbytes(80)))
            case "bytes":
                return random.randbytes(random.randrange(20))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=random.choice((0, 1, 50)))
            case "datetime_i64":
                return datetime.fromtimestamp(random.randrange(2**31), tz=UTC)
            case "error_code":
                return ErrorCode.none
        raise ValueError(f"no value of type {kafka_type!r}")
