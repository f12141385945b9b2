import struct
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import ApiVersionsAnswers, with_throttle_time
from tests.unit.protocol.kio_oracle import kio_frame

ANSWERS = ApiVersionsAnswers(
    [
        Api(ApiKey.METADATA, 0, 13),
        Api(ApiKey.PRODUCE, 3, 12, advertised_min=0),
        Api(ApiKey.API_VERSIONS, 0, 4),
    ]
)
RANGES = [(0, 0, 12), (3, 0, 13), (18, 0, 4)]


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_the_bytes_that_kio_writes(version: int) -> None:
    schema = load_response_schema(ApiKey.API_VERSIONS, version)
    frame = ANSWERS.answer(version, 77)
    message: Any
    message, size = entity_reader(schema)(frame, 8)
    assert size == len(frame) - 8
    assert [(e.api_key, e.min_version, e.max_version) for e in message.api_keys] == RANGES
    assert message.error_code == ErrorCode.none
    if version >= 1:
        assert message.throttle_time == timedelta(0)
    if version >= 3:
        assert message.supported_features == message.finalized_features == ()
        assert message.finalized_features_epoch == -1
    assert frame == kio_frame(message, 77)


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_the_bytes_that_kio_writes(version: int) -> None:
    schema = load_response_schema(ApiKey.API_VERSIONS, version)
    answers = ApiVersionsAnswers([Api(ApiKey.API_VERSIONS, 0, 4)], {"group.version": 1})
    frame = answers.answer(version, 77)
    message: Any
    message, size = entity_reader(schema)(frame, 8)
    assert size == len(frame) - 8
    (supported,) = message.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == ("group.version", 1, 1)
    (in_force,) = message.finalized_features
    assert in_force.name == "group.version"
    assert (in_force.min_version_level, in_force.max_version_level) == (1, 1)
    assert message.finalized_features_epoch == 0
    assert frame == kio_frame(message, 77)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("features", [{}, {"group.version": 1}])
def test_a_throttle_time_is_set_where_there_is_one(version: int, features: dict[str, int]) -> None:
    answers = ApiVersionsAnswers([Api(ApiKey.API_VERSIONS, 0, 4)], features)
    position = answers.throttle_position(version)
    assert (position is None) == (version in (0, 5))
    if position is not None:
        frame = with_throttle_time(answers.answer(version, 77), position, 300)
        message: Any
        message, _ = entity_reader(load_response_schema(ApiKey.API_VERSIONS, version))(frame, 8)
        assert message.throttle_time == timedelta(milliseconds=300)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_is_refused_in_version_0_with_our_range(version: int) -> None:
    body = struct.pack(">hihhh", 35, 1, 18, 0, 4)
    assert ANSWERS.answer(version, 9) == struct.pack(">ii", len(body) + 4, 9) + body
