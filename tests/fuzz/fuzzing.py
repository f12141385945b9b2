"""What all fuzzers share: seed, duration, and the checks after every thousand messages.

A fuzzer sends for some seconds (`--fuzz-seconds`), but at least one round, so that it tests
something on a slow machine too. All its messages follow from one seed (`--fuzz-seed`).
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, Self

import psutil

from tests.support.running_cluster import Cluster

ROUND: Final = 1_000
GROWTH_MAX_BYTES: Final = 150 << 20
"""Allowed growth since the first check: caches and allocators may grow some, a leak grows more."""
_SIGNS_OF_A_BUG: Final = ("Traceback", "Unhandled", "InvariantViolated", "Exception ignored")


class Watched:
    """Processes that must survive, with their logs."""

    def __init__(self, pids: Mapping[str, int], logs: Mapping[str, Path]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._logs = dict(logs)
        self._read_up_to = dict.fromkeys(logs, 0)
        self._first_bytes: dict[str, int] = {}

    @classmethod
    def all_of(cls, cluster: Cluster) -> Self:
        """The supervisor, the registry and every broker."""
        pids = cluster.processes()
        return cls(pids, {name: cluster.log_path(name) for name in pids})

    def check(self) -> None:
        """Check that no process has ended, leaked memory, or logged a traceback."""
        for name, process in self._processes.items():
            assert process.is_running(), f"{name} has ended"
            assert process.status() != psutil.STATUS_ZOMBIE, f"{name} has ended"
            held = process.memory_info().rss
            growth = held - self._first_bytes.setdefault(name, held)
            assert growth < GROWTH_MAX_BYTES, f"{name} has grown by {growth >> 20} MiB"
        for name in self._logs:
            text = self._new_text(name)
            for sign in _SIGNS_OF_A_BUG:
                at = text.find(sign)
                assert at < 0, f"{name} logged: {text[max(0, at - 300) : at + 3_000]}"

    def _new_text(self, name: str) -> str:
        path = self._logs[name]
        if path.stat().st_size < self._read_up_to[name]:
            self._read_up_to[name] = 0  # it was set aside, and begun anew
        with path.open("rb") as log:
            log.seek(self._read_up_to[name])
            text = log.read()
            self._read_up_to[name] = log.tell()
        return text.decode(errors="replace")


class Fuzzer:
    """One run: `send` is called with the dice again and again, `check` after every round."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.seed = seed
        self.seconds = seconds
        self.sent_count = 0

    def run(
        self,
        send: Callable[[Random], None],
        check: Callable[[], None],
        size: int = ROUND,
        share: float = 1.0,
    ) -> None:
        """Run rounds until that share of the time is over, at least one.

        The message of a failure says how to reproduce it.
        """
        random = Random(self.seed)
        until = time.monotonic() + share * self.seconds
        try:
            check()
            while True:
                for _ in range(size):
                    send(random)
                    self.sent_count += 1
                check()
                if time.monotonic() >= until:
                    return
        except BaseException as error:
            test = os.environ.get("PYTEST_CURRENT_TEST", "tests/fuzz").split(" ")[0]
            error.add_note(f"after {self.sent_count} messages (checked after each {size})")
            error.add_note(
                f"replay: bin/test {test} --fuzz-seed {self.seed} --fuzz-seconds {self.seconds:g}"
            )
            raise
        finally:
            print(f"seed {self.seed}: {self.sent_count} messages")


def mutated(random: Random, content: bytes) -> bytes:
    """The bytes with some of them changed, taken out, put in, or cut off."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(8):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + random.randrange(1, 9)]
            case 2:
                changed[at:at] = random.randbytes(random.randrange(1, 9))
            case 3:
                changed[at : at + 4] = random.choice(_NUMBERS)
            case 4:
                changed[at : at + 2] = random.choice((b"\xff\xff", b"\x7f\xff", b"\0\0", b"\x80\0"))
            case 5 if changed:
                start = random.randrange(len(changed))
                changed[at:at] = changed[start : start + random.randrange(1, 40)]
            case _:
                with suppress(IndexError):
                    changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)


_NUMBERS: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\0\0\0",
    b"\0\0\0\1",
    b"\xff\xff\xff\x0f",
    b"\0\1\0\0",
)
