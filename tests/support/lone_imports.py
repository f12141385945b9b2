"""A program that imports each module of `cluster/` by itself, and prints those where that fails.

A process is forked for each module. Forking one that has loaded nothing of `cluster/` would take a
minute in all; so the forked process has loaded the lower layers, which never import what is above
them, but nothing of the module's own layer.
"""

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.layers import ROOT, lowest_first

OPTIONAL: Final = frozenset({"kio", "pyarrow", "pyspark"})
"""Packages without which some modules cannot be imported."""

_LOADED_TOGETHER: Final = "cluster.protocol.messages."
"""The package itself imports all of its modules, so that one process is enough."""

_SLOW_TO_LOAD: Final = (
    "confluent_kafka",
    "cryptography",
    "kazoo.client",
    "kio.schema.errors",
    "pyarrow",
    "pyspark.sql.datasource",
    "starlette",
)


def modules_of(layer: str) -> Iterator[str]:
    """The modules of one layer, except for programs such as `cluster.__main__`."""
    path = Path(ROOT, *layer.split("."))
    if path.is_dir():
        for each in sorted(path.rglob("*.py")):
            parts = each.relative_to(ROOT).with_suffix("").parts
            if parts[-1] != "__main__":
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    elif path.name != "__main__":
        yield layer


def failure_of(module: str) -> str | None:
    """Why the module cannot be imported; None if it can, or if an optional package is missing."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        return None if str(missing.name).split(".")[0] in OPTIONAL else repr(missing)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next module is tried
        return repr(error)
    return None


def import_in_child(module: str) -> None:
    """Print the module's name and the failure if it cannot be imported."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    gc.disable()  # it would touch, and so copy, every page that the parent has
    failure = failure_of(module)
    if failure:
        print(module, failure, flush=True)
    os._exit(0)


def main() -> None:
    """Go through the layers, the lowest first."""
    for name in _SLOW_TO_LOAD:
        failure_of(name)
    assert "cluster" not in sys.modules
    for layer in lowest_first():
        gc.collect()
        gc.freeze()
        for module in modules_of(layer):
            if not module.startswith(_LOADED_TOGETHER):
                import_in_child(module)
        for module in modules_of(layer):
            failure_of(module)  # loads it for the layers above


if __name__ == "__main__":
    main()
