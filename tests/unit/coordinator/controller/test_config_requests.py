"""Changes of topics' configs as control messages: what a broker of another version may send."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.coordinator.controller.config_requests import ConfigRequests, encode_alterations
from cluster.model.errors import PeerError
from cluster.model.topics import TopicAlteration

WELL_FORMED = encode_alterations([TopicAlteration("t", False, {"k": None})], validate_only=True)


@pytest.mark.parametrize(
    "change",
    [
        {"topics": 5},
        {"topics": [5]},
        {"topics": [("t",)]},
        {"topics": [("t", False, {}, "more")]},
        {"topics": [(["t"], False, {})]},
        {"topics": [("t", False, [])]},
        {"topics": [("t", False, None)]},
        {"topics": [("t", False, {"k": 5})]},
        {"topics": [("t", False, {5: "v"})]},
    ],
)
def test_a_malformed_request_never_becomes_an_operation(change: dict[str, Any]) -> None:
    """An operation that fails half way would hold up the controller."""
    enqueued: list[Any] = []
    requests = ConfigRequests(SimpleNamespace(enqueue=lambda *args: enqueued.append(args)))  # type: ignore[arg-type]

    with pytest.raises(PeerError):
        requests.on_request(WELL_FORMED | change, pytest.fail)
    assert enqueued == []

    requests.on_request(WELL_FORMED, pytest.fail)
    assert len(enqueued) == 1
