"""Record the README's picture: commands run in a terminal, drawn as an animated SVG.

    PYTHONPATH=. .venv/bin/python -m bench.tour_picture docs/images/tour.svg

It needs tmux, and the usual ports must be free (`unshare --net sh -c 'ip link set lo up; ...'` has
them). Waits of more than a second are cut, and typing has one speed.
"""

import argparse
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.terminal_svg import COLUMNS, ROWS, Frame, draw
from tests.support.page_commands import borrowing_checkout

TYPING_S: Final = 0.08
TYPED_AT_ONCE: Final = 4
END_S: Final = 5.0
PROMPT: Final = "$ "


@dataclass(frozen=True)
class Step:
    """A command, with the seconds in which a viewer reads what it printed."""

    words: str
    reading_s: float = 1.0


CLEAR: Final = Step("clear", 0.0)
STEPS: Final = (
    Step("# Three Kafka brokers: real processes, no JVM, no Docker"),
    Step("bin/cluster start --detach", 3.0),
    CLEAR,
    Step("# A client may send 1 MiB/s to each broker. It sends more"),
    Step("bin/cluster quotas set --client-id loader --producer-byte-rate 1MiB"),
    Step(
        "bin/cluster load-test --client-id loader --topic load --keep"
        " --throughput 4000 --duration 14 &> load.txt &"
    ),
    Step("sleep 7; bin/cluster quotas explain --client-id loader", 8.0),
    CLEAR,
    Step("# Kill a broker under this load, kill -9. Who leads now?"),
    Step("bin/cluster kill 1 --stay-down", 2.0),
    Step("bin/cluster topics --describe --topic load | cut -f 3-6", 5.0),
    Step("bin/cluster restart 1", 2.0),
    Step("# And the records?"),
    Step("bin/cluster quotas unset --client-id loader --producer-byte-rate"),
    Step("wait; tail -n 1 load.txt", 1.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    picture: Path = parser.parse_args().picture
    with tempfile.TemporaryDirectory(prefix="milena-picture-") as folder, terminal(folder) as tmux:
        frames = shortened(record(tmux))
    picture.write_text(draw(frames, END_S))
    last = frames[-1].at_s + END_S
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} KB, {len(frames)} frames, {last:.0f} s")


class Terminal:
    """A shell in a tmux of its own."""

    def __init__(self, folder: str) -> None:
        self._socket = str(Path(folder) / "tmux")

    def ask(self, *words: str) -> str:
        """What a command of tmux prints."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *words],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def screen(self) -> tuple[str, ...]:
        """The lines on the screen, with their colors."""
        lines = self.ask("capture-pane", "-e", "-p").split("\n")
        return tuple(lines[:ROWS])

    def type(self, text: str) -> None:
        """Press keys."""
        self.ask("send-keys", "-H", *(f"{each:x}" for each in text.encode()))

    def is_at_prompt(self) -> bool:
        """Whether the shell waits for a command."""
        written = [line for line in self.ask("capture-pane", "-p").split("\n") if line.strip()]
        return bool(written) and written[-1].rstrip() == PROMPT.strip()


@contextlib.contextmanager
def terminal(folder: str) -> Iterator[Terminal]:
    """A shell in a checkout; the cluster that is started there is stopped at the end."""
    checkout = borrowing_checkout(Path(folder) / "milena")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "COLORTERM": "truecolor"}
    tmux = Terminal(folder)
    words = ["new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "bash --norc +m"]
    subprocess.run(
        ["tmux", "-S", str(Path(folder) / "tmux"), "-f", "/dev/null", *words],
        check=True,
        cwd=checkout,
        env=environment,
    )
    try:
        tmux.ask("set", "status", "off")
        tmux.ask("send-keys", rf"PS1='\[\e[32m\]{PROMPT}\[\e[0m\]'; clear", "Enter")
        while not tmux.is_at_prompt():
            time.sleep(TYPING_S)
        yield tmux
    finally:
        stop = [checkout / "bin" / "cluster", "stop", "--purge"]
        subprocess.run(stop, cwd=checkout, env=environment, check=False, capture_output=True)
        tmux.ask("kill-server")


def record(tmux: Terminal) -> list[Frame]:
    """Every screen that a viewer of the steps sees."""
    began = time.monotonic()
    frames: list[Frame] = []

    def look() -> None:
        screen = tmux.screen()
        if not frames or frames[-1].lines != screen:
            frames.append(Frame(time.monotonic() - began, screen))

    look()
    for step in STEPS:
        for begin in range(0, len(step.words), TYPED_AT_ONCE):
            tmux.type(step.words[begin : begin + TYPED_AT_ONCE])
            time.sleep(TYPING_S)
            look()
            frames[-1] = replace(frames[-1], most_s=TYPING_S)
        tmux.ask("send-keys", "Enter")
        time.sleep(TYPING_S)
        while not tmux.is_at_prompt():
            look()
            time.sleep(TYPING_S)
        look()
        frames[-1] = replace(frames[-1], least_s=step.reading_s)
    return frames


def shortened(frames: list[Frame]) -> list[Frame]:
    """The frames with long waits cut, and with time to read what has been printed."""
    at_s = 0.0
    moved = []
    for frame, following in pairwise([*frames, frames[-1]]):
        moved.append(replace(frame, at_s=at_s))
        at_s += max(min(following.at_s - frame.at_s, frame.most_s), frame.least_s)
    return moved


if __name__ == "__main__":
    main()
