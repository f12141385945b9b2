"""Output to a paused reader is buffered and written later, without blocking."""

import os
import pty
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.console_stream import ConsoleStream
from tests.support.waiting import wait_until

MORE_THAN_A_PIPE_HOLDS = 200_000


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(SystemClock())
    yield loop
    loop.close()


def test_full_pipe_does_not_block_and_loses_no_output(loop):
    reader, writer = os.pipe()
    stream = ConsoleStream(writer, loop)
    drained = []
    text = "".join(f"{number}\n" for number in range(MORE_THAN_A_PIPE_HOLDS // 7))
    stream.write(text)
    stream.when_drained(lambda: drained.append(True))
    assert not drained
    received = bytearray()
    while len(received) < len(text):
        received += os.read(reader, 65_536)
        loop.run_once(max_wait_ms=0)
    assert received.decode() == text
    assert drained == [True]
    stream.write("more\n")
    assert os.read(reader, 100) == b"more\n"
    stream.close()
    os.close(reader)
    os.close(writer)


def test_paused_terminal_does_not_block(loop):
    terminal, ours = pty.openpty()
    termios.tcflow(ours, termios.TCOOFF)  # Ctrl-S
    stream = ConsoleStream(ours, loop)
    for number in range(1_000):
        stream.write(f"line {number}\n")
    termios.tcflow(ours, termios.TCOON)  # Ctrl-Q
    received = bytearray()
    os.set_blocking(terminal, False)

    def has_all() -> bool:
        loop.run_once(max_wait_ms=0)
        with suppress(BlockingIOError):
            received.extend(os.read(terminal, 65_536))
        return received.endswith(b"line 999\r\n")

    wait_until(has_all, "the last line")
    assert received.startswith(b"line 0\r\n")
    assert received.count(b"\n") == 1_000
    stream.close()
    os.close(terminal)
    os.close(ours)


def test_output_buffered_for_a_stalled_reader_is_bounded(loop):
    reader, writer = os.pipe()
    stream = ConsoleStream(writer, loop)
    for _ in range(100):
        stream.write("x" * 65_536)
    assert stream.kept_bytes <= 256 * 1024
    stream.close()
    os.close(reader)
    os.close(writer)


def test_output_to_a_closed_reader_is_dropped(loop):
    reader, writer = os.pipe()
    os.close(reader)
    stream = ConsoleStream(writer, loop)
    drained = []
    stream.write("hello\n")
    stream.when_drained(lambda: drained.append(True))
    assert drained == [True]
    stream.finish()
    os.close(writer)


def test_finish_waits_until_the_reader_takes_the_output(loop):
    reader, writer = os.pipe()
    stream = ConsoleStream(writer, loop)
    text = "x" * MORE_THAN_A_PIPE_HOLDS
    stream.write(text)
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        received = 0
        while part := os.read(reader, 65_536):
            received += len(part)
        os._exit(0 if received == len(text) else 1)
    os.close(reader)
    stream.finish()
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
