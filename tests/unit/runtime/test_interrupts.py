"""Ctrl-C is deferred to the end of a protected block."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from cluster.runtime.interrupts import deferred_interrupt, handled_by


@pytest.fixture(autouse=True)
def as_in_a_tool() -> Iterator[None]:
    """SIGINT raises, SIGTERM is ignored."""
    with (
        handled_by(signal.default_int_handler, [signal.SIGINT]),
        handled_by(signal.SIG_IGN, [signal.SIGTERM]),
    ):
        yield


def interrupted(steps: list[str]) -> None:
    with deferred_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("inside")
    steps.append("after")


def test_an_interrupt_is_raised_at_the_end() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(steps)
    assert steps == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored() -> None:
    with deferred_interrupt():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)


def test_other_threads_are_never_interrupted() -> None:
    seen = []

    def work() -> None:
        with deferred_interrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [signal.default_int_handler]
