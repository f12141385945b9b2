"""What live views on a terminal share: single keys, one line each, the brokers' states."""

import argparse
import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cluster.runtime.text_table import styled
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.quantities import duration

if TYPE_CHECKING:
    from rich.text import Text

_INTERVAL_MIN_S: Final = 0.1
_KEYS_MAX_BYTES: Final = 256


def add_interval(parser: argparse.ArgumentParser) -> None:
    """Add `--interval`."""
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default: 1)",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not _INTERVAL_MIN_S <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be {_INTERVAL_MIN_S:g} or more")
    return seconds


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Within the block, the terminal delivers single keys without echo.

    SIGTERM ends it like Ctrl-C, so that the terminal is restored.
    """
    before_term = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not sys.stdin.isatty():
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        try:
            tty.setcbreak(sys.stdin)
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
    finally:
        signal.signal(signal.SIGTERM, before_term)


def pressed_keys(wait_s: float) -> str:
    """What is typed within `wait_s`, as soon as anything is; empty if nothing is."""
    if not sys.stdin.isatty():
        time.sleep(wait_s)
        return ""
    if not select.select([sys.stdin], [], [], max(0.0, wait_s))[0]:
        return ""
    typed = os.read(sys.stdin.fileno(), _KEYS_MAX_BYTES).decode("utf-8", "replace")
    return typed or "q"  # the terminal is gone


def cut_line(text: str, style: str = "") -> "Text":
    """A line that is cut at the terminal's edge."""
    line = styled(text, style)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def brokers_alive(brokers: Sequence[BrokerStats]) -> str:
    """The number of live brokers, and the others."""
    others = [broker for broker in brokers if broker.state != ALIVE]
    alive = f"{len(brokers) - len(others)} of {len(brokers)} brokers alive"
    return f"{alive}; {broker_states(others)}" if others else alive


def broker_states(brokers: Sequence[BrokerStats]) -> str:
    """`broker 0 alive, broker 1 dead for 3.0 s`."""
    shown = [
        f"broker {broker.broker} {broker.state}"
        + ("" if broker.state == ALIVE else f" for {duration(broker.age_ms)}")
        for broker in brokers
    ]
    return ", ".join(shown)
