"""Where tests keep the software that they fetch, and that one process fetches it for all."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "milena"


def may_install() -> bool:
    """Whether tests may install software here: in CI, or if MILENA_TEST_INSTALL is set."""
    return os.environ.get("CI") == "true" or os.environ.get("MILENA_TEST_INSTALL") == "1"


def need_beyond_pypi(what: str) -> None:
    """Skip the running test where only what PyPI has may be used, as in `bin/test` without `--ci`.

    Whole tests that need more are marked `beyond_pypi` and not even begun.
    """
    if os.environ.get("MILENA_TEST_PYPI_ONLY") == "1":
        pytest.skip(f"{what}: left to `bin/test --ci`")


@contextlib.contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Wait until no other process is in here for the same reason: pytest has several.

    Whoever has waited looks again first whether there is still something to do.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, whatever becomes of it
        yield
