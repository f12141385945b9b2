"""Requests that Kafka does not have: Kafka's frames and non-flexible headers, bodies of our own.

ApiVersions does not list them, and a Kafka broker closes the connection
([024](docs/decisions/024-why-groups-rebalance.md)).
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

from cluster.brokers.handlers.request import Handler, NotYet, RequestContext
from cluster.brokers.network.connection import Outgoing
from cluster.model.acls import Right
from cluster.protocol.api import Api

_PREFIX: Final = struct.Struct(">ii")
"""The frame's size and the correlation id."""

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")
ServicesT = TypeVar("ServicesT")


def own_request(
    api: Api,
    handle: Callable[[QuestionT, RequestContext, ServicesT], AnswerT | NotYet],
    takes: type[ServicesT],
    read: Callable[[bytes], QuestionT],
    pack: Callable[[AnswerT], bytes],
    *,
    authorizes: tuple[Right, ...],
) -> Handler[ServicesT]:
    """A handler with a codec of its own."""

    def decode(_version: int, frame: memoryview, position: int) -> QuestionT:
        return read(bytes(frame[position:]))

    def encode(
        _version: int, correlation_id: int, answer: Any, _throttle_ms: int
    ) -> list[Outgoing]:
        """The throttle time is left out: the tools that send these requests send nothing else."""
        body = pack(answer)
        return [_PREFIX.pack(len(body) + 4, correlation_id) + body]

    return Handler(api, handle, takes, decode, encode, authorizes=authorizes)
