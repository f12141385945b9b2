"""Answers that take long to gather: at once if they are short, else in slices between requests."""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from cluster.brokers.handlers.request import NotYet, RequestContext, now_or_later
from cluster.runtime.slices import Slices

STEPS_AT_ONCE: Final = 8

ResponseT = TypeVar("ResponseT")


def gathered(
    steps: Iterator[None], answer: Callable[[], ResponseT], context: RequestContext, slices: Slices
) -> ResponseT | NotYet:
    """Carry out the steps, then answer with the result of `answer`.

    Returns that if there are few steps, else PARKED. Ends early if the client disconnects.
    """

    def job(respond: Callable[[ResponseT], None]) -> Iterator[None]:
        for _ in steps:
            yield
            if not context.channel.is_open:
                return
        respond(answer())

    return now_or_later(lambda respond: slices.start(job(respond), STEPS_AT_ONCE), context)
