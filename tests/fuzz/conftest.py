"""Fixtures of the fuzzers; their options are in `tests/conftest.py`."""

import pytest

from tests.fuzz.fuzzing import Fuzzer


@pytest.fixture
def fuzzer(request: pytest.FixtureRequest) -> Fuzzer:
    """With the seed and the seconds that were asked for."""
    return Fuzzer(
        request.config.getoption("--fuzz-seed"), request.config.getoption("--fuzz-seconds")
    )
