"""What a helper process runs in tests: answers, prints, sleeps or fails as it is told."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any


def work(message: Mapping[str, Any], send: Callable[[Mapping[str, Any]], None]) -> None:
    match message["do"]:
        case "echo":
            send({**message, "niceness": os.nice(0)})
        case "print":
            print("this is not a message")
            send(message)
        case "hang":
            send({"do": "hang", "pid": os.getpid()})
            time.sleep(3600)
        case "fail":
            os._exit(3)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
