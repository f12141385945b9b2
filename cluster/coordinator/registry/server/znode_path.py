"""Validates and splits znode paths (`PathUtils.validatePath`)."""

import re
from typing import Final

from cluster.coordinator.registry.wire.codes import OperationRefused, RegistryError

# Control characters, surrogates and private use, specials, and whatever Java writes as surrogates.
_REFUSED_CHARACTERS: Final = "\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_VALID: Final = re.compile(rf"/|(?:/(?!\.\.?(?:/|\Z))[^/{_REFUSED_CHARACTERS}]+)+")


def require_valid(path: str) -> None:
    """Raise OperationRefused(BAD_ARGUMENTS) unless the path is absolute, without empty, `.` or `..`
    names, without a trailing slash and without unprintable characters.
    """
    if _VALID.fullmatch(path) is None:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS)


def split_path(path: str) -> tuple[str, str]:
    """The parent path and the name: `/a` and `b` of `/a/b`. The root has itself as parent and an
    empty name.
    """
    parent, _, name = path.rpartition("/")
    return parent or "/", name
