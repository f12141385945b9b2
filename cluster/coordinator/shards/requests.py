"""The two kinds of request that a shard takes, each with the type of its reply. Pure.

Kafka: write and read operations of `CoordinatorRuntime`.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from cluster.model.clocks import Moment

ReplyT = TypeVar("ReplyT")

AnswerQuery = Callable[[Any, Moment], Any]
TakeRequest = Callable[[Any, object, Moment], None]
"""Takes a request, the token to answer it by, and the time."""


class Request(Generic[ReplyT]):
    """Answered exactly once with a `ReplyT`: at once, or when its records are stored, or when other
    requests have arrived. A `Request[None]` reports an event that nobody waits for."""

    __slots__ = ()

    @classmethod
    def taken_by(cls, method: Callable[[Self, object, Moment], None]) -> tuple[type, TakeRequest]:
        """The row of a shard's table: this type of request and the method that takes it."""
        return cls, method


class Query(Generic[ReplyT]):
    """Answered at once with a `ReplyT`; it appends nothing. It may postpone a timeout."""

    __slots__ = ()

    @classmethod
    def answered_by(cls, method: Callable[[Self, Moment], ReplyT]) -> tuple[type, AnswerQuery]:
        """The row of a shard's table: this type of query and the method that answers it."""
        return cls, method
