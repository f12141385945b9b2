"""Values as JSON that any reader accepts: RFC 8259 has no NaN and no infinity. Pure."""

import json
import math
from typing import Any


def finite(value: Any) -> Any:
    """The value with None for every number that JSON cannot express, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def json_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON; numbers that it cannot express are null."""
    return json.dumps(finite(value), indent=indent, allow_nan=False)
