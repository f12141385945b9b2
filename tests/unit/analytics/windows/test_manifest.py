"""The manifest is preserved in JSON; anything else is refused with a message."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.layout import FileUnit, VisiblePath, parsed, units_of
from cluster.analytics.windows.manifest import (
    DeltaFile,
    FormerTopic,
    Manifest,
    Progress,
    QuarantineFile,
    UnusableDirectory,
    VisibleFile,
    day_list_as_bytes,
    day_list_from_bytes,
    manifest_as_bytes,
    manifest_from_bytes,
)

DELTA = DeltaFile("_open/3-0.parquet", 7, 900, 10, 20, {"2026-11-26T13": 7}, ("lag", "quota"))
FULL = Manifest(
    progress=Progress("t", "i", {0: 5, 11: 7}, "c", (FormerTopic(None, {0: 3}),)),
    change=3,
    writer="w",
    newest_s=-10,
    deltas=(DELTA,),
    days={"2026-11-26": 2},
    hours={"2026-11-26T13": 4},
    forgotten={"10s": "2026-11-01"},
    quarantined=(QuarantineFile("_meta/aside/00000001.jsonl", 5, "2026-11-26"),),
    moves=(("_meta/drafts/3/a", "a"),),
    removals=("b",),
)


@pytest.mark.parametrize("manifest", [Manifest(), FULL])
def test_a_manifest_goes_through_json(manifest: Manifest) -> None:
    assert manifest_from_bytes(manifest_as_bytes(manifest), "m") == manifest


def test_a_list_of_a_day_goes_through_json() -> None:
    files = [
        VisibleFile("kind=lag/width=10s/day=2026-11-26/13.parquet", 5, 6),
        VisibleFile("kind=lag/width=1h/day=2026-11-26/day.parquet", 7, 8),
    ]
    assert day_list_from_bytes(day_list_as_bytes(files[::-1]), "m") == files


def test_the_result_of_a_piece_goes_through_json() -> None:
    result = PieceResult([DELTA], {"lag": 3}, {"ts": 1}, 2, 1, ["a line"])
    assert PieceResult.from_json(result.as_json()) == result


@pytest.mark.parametrize("path", ["/etc/passwd", "a/../../b", "", "a//b", "a\\b", "./a", 5, None])
def test_paths_outside_of_the_directory_are_refused(path: Any) -> None:
    document = json.loads(manifest_as_bytes(FULL))
    document["removals"] = [path]
    with pytest.raises(UnusableDirectory, match="m is damaged"):
        manifest_from_bytes(json.dumps(document).encode(), "m")


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(manifest_as_bytes(FULL)))), JSON_VALUES)
def test_any_other_value_of_a_field_is_accepted_or_damage(name: str, value: Any) -> None:
    document = json.loads(manifest_as_bytes(FULL)) | {name: value}
    try:
        found = manifest_from_bytes(json.dumps(document).encode(), "m")
    except UnusableDirectory:
        return
    assert manifest_from_bytes(manifest_as_bytes(found), "m") == found


@given(st.binary())
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(UnusableDirectory):
        manifest_from_bytes(content, "m")


def test_units_cover_an_hour() -> None:
    for slices in (1, 2, 3, 60):
        units = units_of("2026-11-26T13", slices)
        assert units[0].begin_s == FileUnit("2026-11-26T13").begin_s
        assert units[-1].end_s == FileUnit("2026-11-26T13").end_s
        assert all(one.end_s == other.begin_s for one, other in itertools.pairwise(units))
        for unit in units:
            path = VisiblePath("lag", "10s", unit.day, unit.name)
            assert parsed(str(path)) == path
    assert parsed("kind=lag/width=10s/day=2026-11-26/x.parquet") is None
