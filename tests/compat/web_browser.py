"""A headless Chromium, driven by the DevTools protocol over its two pipes (no port, no library)."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.compat.installing import may_install, need_beyond_pypi, one_at_a_time
from tests.support.waiting import DEADLINE_S, is_readable, wait_until

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")


def _program() -> str:
    """The path of Chromium; skips the test where there is none."""
    need_beyond_pypi("Chromium")
    if _found() is None and may_install() and shutil.which("apt-get") and os.geteuid() == 0:
        with one_at_a_time("chromium"):
            if _found() is None:
                install = ["apt-get", "install", "-qq", "--no-install-recommends", "chromium"]
                for command in (["apt-get", "update", "-qq"], install):
                    subprocess.run(command, capture_output=True, check=False, timeout=300)
    found = _found()
    if found is None:
        pytest.skip("there is no Chromium (Debian's package chromium)")
    return found


def _found() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


class WebPage:
    """One page of a browser; what it logs as wrong, asks and fetches is kept."""

    def __init__(self, profile: Path) -> None:
        commands, self._commands = _pipe()
        self._answers, answers = _pipe()
        self._process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}'),
                *(_program(), *_OPTIONS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self.problems: list[str] = []
        self.questions: list[str] = []
        """What it has asked the user to confirm; each is confirmed at once."""
        self.fetched: list[str] = []
        """The addresses of all requests."""
        (target,) = wait_until(self._pages, "the first page of the browser")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _pages(self) -> list[dict[str, Any]]:
        found = self.call("Target.getTargets")["targetInfos"]
        return [each for each in found if each["type"] == "page"]

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._commands)
        os.close(self._answers)

    # -- what a user does ------------------------------------------------------------------------

    def show(self, url: str, *, width: int = 1300, height: int = 800) -> Self:
        """Open an address in a window of that size in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.call(
            "Page.navigate", url="about:blank"
        )  # else one that differs by # would stay as it is
        self.call("Page.navigate", url=url)
        page = json.dumps(url.partition("#")[0])  # not what was shown before, or a browser's error
        self.wait_for(
            f"location.href.startsWith({page}) && document.readyState === 'complete'"
            " && document.body.childElementCount > 0"
            " && document.querySelector('[aria-busy=true]') === null"
        )
        return self

    def prefer(self, colors: str) -> None:
        """`light` or `dark`, as an operating system says it to pages."""
        features = [{"name": "prefers-color-scheme", "value": colors}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited. Raises AssertionError if it throws."""
        answer = self.call(
            "Runtime.evaluate",
            **{"expression": expression, "awaitPromise": True, "returnByValue": True},
        )
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """The value of the expression as soon as it is true."""
        return wait_until(lambda: self.ask(expression), expression)

    def screenshot(self, path: Path) -> None:
        """Write what is seen as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    # -- the protocol ----------------------------------------------------------------------------

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a method of the protocol."""
        number = self._send(method, parameters)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            message = self._receive(deadline)
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._on_event(message.get("method"), message.get("params", {}))

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        return number

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert is_readable(self._answers, max(0, deadline - time.monotonic())), "no answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _on_event(self, method: str | None, event: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(event["exceptionDetails"]))
            case "Log.entryAdded" if event["entry"]["level"] == "error":
                self.problems.append(event["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.questions.append(event["message"])
                self._send("Page.handleJavaScriptDialog", {"accept": True})
            case "Network.requestWillBeSent":
                self.fetched.append(event["request"]["url"])


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are too large to collide with a shell's `3<&` and `4>&`."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]


@contextlib.contextmanager
def web_page(profile: Path) -> Iterator[WebPage]:
    """A browser with one page; `profile` is a folder of its own. Skips where there is none."""
    page = WebPage(profile)
    with contextlib.closing(page):
        yield page
