"""Fixtures of the tests that run whole clusters."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import DEFAULT_EXAMPLES, USUAL
from tests.support.running_cluster import Cluster

_running: list[Cluster] = []

for _profile, _examples in DEFAULT_EXAMPLES.items():
    # No deadline, because no test depends on how fast the machine is.
    settings.register_profile(_profile, deadline=None, max_examples=_examples)
settings.load_profile(USUAL)


# PyArrow imports dateutil again for each value that it converts, and where it is not installed each
# of these imports searches all of Python's path.
if find_spec("dateutil") is None:
    sys.modules["dateutil"] = None  # type: ignore[assignment]  # what makes an import fail at once

# What is tested is the source, whatever build bin/cluster would use here.
os.environ["MILENA_COMPILE"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the duration and the seed of the fuzzers in `tests/fuzz`."""
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=6.0,
        help="how long each of the fuzzers sends (default: %(default)s)",
    )
    parser.addoption("--fuzz-seed", type=int, default=1, help="what all that they send comes from")


def pytest_configure() -> None:
    """Restore the default handler of SIGINT, so that Ctrl-C reaches processes that tests start.

    A shell that starts the tests in the background ignores SIGINT, and child processes inherit it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep Python's garbage collector from visiting what the collected tests hold, which stays.

    It would take a fifth of the time of the short tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave coverage out of what runs the same lines very often: it makes them 2.5 times as long.

    Other tests of that kind are marked `no_cover` themselves.
    """
    for item in items:
        reads_source = item.nodeid.startswith("tests/tidy/")  # and runs next to none of it
        if reads_source or any(map(item.get_closest_marker, ("hypothesis", "slow"))):
            item.add_marker("no_cover")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers with default settings, for tests that leave them as they were."""
    with Cluster(tmp_path_factory.mktemp("shared")) as shared:
        _running.append(shared)
        yield shared
        _running.remove(shared)


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters, not yet started, for one test alone; takes the arguments of `Cluster`."""
    made: list[Cluster] = []

    def make(**options: object) -> Cluster:
        one = Cluster(tmp_path / f"cluster{len(made)}", **options)  # type: ignore[arg-type]  # as given
        made.append(one)
        _running.append(one)
        return one

    yield make
    for one in made:
        one.close()
        _running.remove(one)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of each log of the running clusters to the report of a failed test."""
    report = yield
    if report.failed:
        for one in _running:
            report.sections.extend(one.log_tails())
    return report
