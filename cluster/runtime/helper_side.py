"""The helper's main program: `python -m cluster.runtime.helper_side MODULE NICENESS`.

`helper_process` starts it. It calls the module's function `work(message, send)` for each message in
turn; `send` answers with a message. An exception of the function ends the process.
"""

import importlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from cluster.compilation.finder import use_build
from cluster.runtime.json_lines import LineBuffer, line

Send = Callable[[Mapping[str, Any]], None]

_READ_BYTES = 1 << 16


def main() -> None:
    """Work until the parent closes the pipe, which may happen at any time."""
    module, niceness = sys.argv[1:]
    os.nice(int(niceness))
    answers = os.dup(1)
    use_build()
    os.dup2(2, 1)  # output of `print` goes to the parent's log, not among the messages
    work = importlib.import_module(module).work
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(waiting,), name="parent", daemon=True).start()

    def send(message: Mapping[str, Any]) -> None:
        unsent = memoryview(line(message))
        try:
            while unsent:
                unsent = unsent[os.write(answers, unsent) :]
        except BrokenPipeError:
            os._exit(0)

    while True:
        work(waiting.get(), send)


def _listen(waiting: "queue.SimpleQueue[dict[str, Any]]") -> None:
    lines = LineBuffer()
    while received := os.read(0, _READ_BYTES):
        for message in lines.feed(received):
            waiting.put(message)
    os._exit(0)  # stop in the middle of the work: the parent has ended or dropped it


if __name__ == "__main__":
    main()
