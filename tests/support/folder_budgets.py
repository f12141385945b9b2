"""The time budget of each folder of tests, and a table of how long they took.

A pytest plugin that `bin/test` loads. The seconds of all tests are added up, over all of pytest's
processes: on two cores, the run of the first four folders takes half of them, that of the others
a quarter.
"""

import os
import subprocess
import sys
from collections import defaultdict
from typing import Final

import psutil
import pytest

BUDGETS: Final = {
    "tests/unit": 900,
    "tests/wire": 15,
    "tests/tidy": 45,
    "tests/simulation": 400,
    "tests/fuzz": 50,
    "tests/integration": 1_800,
    "tests/compat": 1_300,
}
"""Seconds of `bin/test --ci` on two otherwise idle cores that do a million additions in
`USUAL_S`: an aim of 25 minutes for all of it, which takes 45.
"""

USUAL_S: Final = 0.06

FAILS_ABOVE: Final = 3.0
"""Fail above this multiple of the budget; below it only warn, as the machine may be slower."""


def crowding() -> float:
    """The factor by which other load slows the tests down: runnable tasks per core, at least 1."""
    return max(1.0, os.getloadavg()[1] / (os.cpu_count() or 1))


_ADDITIONS: Final = """
import time
def additions_s():
    started, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - started
print(min(additions_s() for _ in range(5)))
"""


def slowness() -> float:
    """The factor by which this machine is slower than usual just now, at least 1.

    A process of its own measures it: coverage would trace every addition in this one.
    """
    measured = subprocess.run(
        [sys.executable, "-I", "-c", _ADDITIONS], capture_output=True, text=True, check=True
    )
    return max(1.0, float(measured.stdout) / USUAL_S)


class FolderSeconds:
    """Adds up what the reports of tests say."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._slowness = slowness()
        psutil.cpu_times_percent()  # the next call is about the time since this one

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test's setup, call or teardown has ended."""
        self._seconds["/".join(report.nodeid.split("/")[:2])] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A folder far above its budget fails the run."""
        self._slowness = max(self._slowness, slowness())
        if session.exitstatus == pytest.ExitCode.OK and self._far_over():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Seconds and budget of each folder, and whether more processes would make it faster."""
        terminalreporter.section("seconds by folder, and the budget")
        for folder, seconds in sorted(self._seconds.items()):
            terminalreporter.line(f"{folder:<20}{seconds:>6.0f} of {BUDGETS.get(folder, 0):>4}")
        idle = psutil.cpu_times_percent().idle
        terminalreporter.line(
            f"processors were idle for {idle:.0f} % of the time, and took {self._slowness:.1f} "
            "times as long as usual for a loop"
        )
        far_over = self._far_over()
        for folder in self._over(1.0):
            verdict = "FAILED" if folder in far_over else "warning"
            terminalreporter.line(f"{verdict}: {folder} takes longer than its budget")

    def _far_over(self) -> list[str]:
        return self._over(FAILS_ABOVE * crowding() * self._slowness)

    def _over(self, factor: float) -> list[str]:
        return [
            folder
            for folder, seconds in self._seconds.items()
            if seconds > BUDGETS.get(folder, 0) * factor
        ]


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that prints adds up."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderSeconds())
