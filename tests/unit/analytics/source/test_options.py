"""The options of the data source: defaults, offsets, and one line for each invalid one."""

import json
import re

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.source.options import (
    DROPMALFORMED,
    SourceOptions,
    columns_wanted,
    offsets_at,
    parsed_options,
)
from cluster.model.errors import UserError

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
PRESENT = (OffsetRange(0, 5, 20), OffsetRange(1, 0, 7))


def batch(**given: str) -> SourceOptions:
    return parsed_options({**SERVERS, **given}, is_stream=False)


def stream(**given: str) -> SourceOptions:
    return parsed_options({**SERVERS, **given}, is_stream=True)


def offsets(**given: object) -> str:
    return json.dumps({"__cluster_metrics": {name[1:]: at for name, at in given.items()}})


def test_defaults_are_those_of_sparks_connector():
    found = batch()
    assert (found.starting, found.ending, found.fail_on_data_loss) == ("earliest", "latest", True)
    assert stream().starting == "latest"
    assert stream().max_offsets is None
    assert found.topic == "__cluster_metrics"
    assert (found.kind, found.mode) == (None, DROPMALFORMED) == columns_wanted(SERVERS)


def test_names_are_known_in_any_case_and_client_settings_are_passed_on():
    found = parsed_options(
        {**SERVERS, "STARTINGOFFSETS": "Latest", "Mode": "permissive", "KAFKA.sasl.username": "a"},
        is_stream=False,
    )
    assert (found.starting, found.mode) == ("latest", "PERMISSIVE")
    assert found.connection == {"bootstrap.servers": "localhost:9092", "sasl.username": "a"}


def test_a_password_is_not_in_what_is_printed():
    assert "geheim" not in repr(batch(**{"kafka.sasl.password": "geheim"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", {0: 5, 1: 0}),
        ("latest", {0: 20, 1: 7}),
        (offsets(_0=9, _1=7), {0: 9, 1: 7}),
        (offsets(_0=-2, _1=-1), {0: 5, 1: 7}),
    ],
)
def test_offsets_stand_for_a_place_in_every_partition(text: str, expected: dict[int, int]):
    assert offsets_at("startingOffsets", batch(startingOffsets=text).starting, PRESENT) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (offsets(_0=9), "startingOffsets must name every partition of the topic: 0, 1"),
        (offsets(_0=9, _1=0, _2=0), "startingOffsets must name every partition of the topic: 0, 1"),
        (offsets(_0=9, _1=8), "startingOffsets: partition 1 ends at offset 7, before 8"),
    ],
)
def test_missing_offsets_are_reported_in_one_line(text: str, line: str):
    with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
        offsets_at("startingOffsets", batch(startingOffsets=text).starting, PRESENT)


@pytest.mark.parametrize(
    "text",
    [
        *("", "first", "5", "[]", "{", '{"other": {"0": 1}}', "[" * 100_000),
        *(offsets(_0=True), offsets(_0="1"), offsets(_0=1.5), offsets(_0=-3), offsets(_0=1 << 63)),
        *(offsets(_x=1), json.dumps({"__cluster_metrics": 1})),
    ],
)
def test_malformed_offsets_are_reported_in_one_line(text: str):
    with pytest.raises(
        UserError, match=r"^startingOffsets must be earliest, latest or offsets as "
    ):
        batch(startingOffsets=text)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"kind": "quotas"},
            "kind must be one of quota, group, lag, broker, topic, latency, event",
        ),
        ({"mode": "strict"}, "mode must be one of DROPMALFORMED, PERMISSIVE, FAILFAST"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be one of true, false"),
        ({"minPartitions": "0"}, "minPartitions must be a number from 1"),
        ({"subscribePattern": "x.*"}, "unknown option subscribepattern; there are subscribe"),
        ({"path": "/x"}, "unknown option path; there are subscribe"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for spark.readStream"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": offsets(_0=-2)}, "endingOffsets cannot be earliest"),
        ({"kafka.bootstrap.servers": ""}, "set kafka.bootstrap.servers, for example"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be set"),
    ],
)
def test_invalid_options_are_reported_in_one_line(given: dict[str, str], line: str):
    with pytest.raises(UserError, match=f"^{re.escape(line)}[^\n]*$"):
        batch(**given)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "²", "1" * 30])
def test_invalid_limit_is_reported_in_one_line(text: str):
    with pytest.raises(UserError, match=r"^maxOffsetsPerTrigger must be a number from 1[^\n]*$"):
        stream(maxOffsetsPerTrigger=text)


def test_stream_refuses_ending_offsets():
    with pytest.raises(UserError, match=r"^endingOffsets is for spark\.read$"):
        stream(endingOffsets="latest")
