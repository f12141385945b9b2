"""JSON that any reader accepts."""

import json
import math

from cluster.model.finite_json import finite, json_text


def test_finite_replaces_infinite_numbers_at_any_depth() -> None:
    given = {"a": [1, math.inf, {"b": math.nan, "c": "inf"}], "d": -math.inf, "e": 1.5}
    assert finite(given) == {"a": [1, None, {"b": None, "c": "inf"}], "d": None, "e": 1.5}


def test_json_text_has_null_for_nan() -> None:
    assert json.loads(json_text({"a": math.nan, "b": (1.0, -math.inf)})) == {
        "a": None,
        "b": [1.0, None],
    }
