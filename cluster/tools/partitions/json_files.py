"""Reads the JSON files of Kafka's tools: a list of objects, most of which name a partition."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.model.printable import one_line

INT32_MAX: Final = 2**31 - 1
_VERSION: Final = 1


def rows_of(path: Path, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of the list of that name, each with words that say where it is.

    Raises UserError.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not JSON: {problem}") from None
    if not isinstance(content, Mapping) or not isinstance(content.get(name), list):
        raise UserError(f"{path}: a list `{name}` is missing")
    version: Any = content.get("version", _VERSION)
    if type(version) is not int or version != _VERSION:
        raise UserError(f"{path}: version must be {_VERSION}, not {one_line(str(version))}")
    if not content[name]:
        raise UserError(f"{path}: the list `{name}` is empty")
    for at, row in enumerate(content[name]):
        where = f"{path}: {name}[{at}]"
        if not isinstance(row, Mapping):
            raise UserError(f"{where} is not an object")
        yield where, row


def topic_of(row: Mapping[str, Any], where: str) -> str:
    """The topic that the object names. Raises UserError."""
    topic: Any = row.get("topic")
    if not isinstance(topic, str) or not topic:
        raise UserError(f"{where}: topic must be a name")
    return topic


def place_of(row: Mapping[str, Any], where: str) -> Place:
    """The partition that the object names. Raises UserError."""
    topic = topic_of(row, where)
    number: Any = row.get("partition")
    if type(number) is not int or not 0 <= number <= INT32_MAX:
        raise UserError(f"{where}: partition must be a whole number from 0 to {INT32_MAX}")
    return Place(topic, number)
