"""The share of the machine's memory for requests, and its description."""

import pytest

from cluster.brokers.assembly.options import network_options
from cluster.config import broker
from cluster.config.describe import describe
from cluster.config.machine_memory import machine_memory_bytes, queued_request_bytes
from cluster.config.settings import broker_settings

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory_bytes", "queued_bytes"),
    [
        (None, 128 * MIB),
        (GIB, 128 * MIB),
        (4 * GIB, 256 * MIB),
        (8 * GIB, 512 * MIB),
        (16 * GIB, GIB),
        (512 * GIB, GIB),
    ],
)
def test_requests_may_take_a_sixteenth_of_the_memory_within_bounds(memory_bytes, queued_bytes):
    assert queued_request_bytes(memory_bytes) == queued_bytes


def test_the_default_is_of_this_machine_and_told_by_describe():
    expected = queued_request_bytes(machine_memory_bytes())
    settings = broker_settings({})
    entry = next(e for e in describe(settings) if e.name == "queued.max.request.bytes")
    assert (entry.value, entry.is_default) == (str(expected), True)
    assert "a sixteenth of the machine's memory" in entry.documentation
    assert network_options(settings).queued_max_request_bytes == expected


def test_no_limit_stays_possible():
    settings = broker_settings({"queued.max.request.bytes": "-1"})
    assert network_options(settings).queued_max_request_bytes == -1


def test_the_default_yields_to_larger_requests():
    settings = broker_settings({"socket.request.max.bytes": str(2 * GIB - 1)})
    assert settings[broker.QUEUED_MAX_REQUEST_BYTES] <= GIB
    assert network_options(settings).queued_max_request_bytes == 2 * GIB - 1
