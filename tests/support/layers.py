"""The layers that pyproject.toml states for import-linter."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]


def contracts() -> list[dict[str, Any]]:
    """The contracts that state layers."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return [each for each in stated["contracts"] if each["type"] == "layers"]


def lowest_first(container: str = "cluster") -> Iterator[str]:
    """The folders and modules that are layers, each after those that it may import."""
    layers = {name: each["layers"] for each in contracts() for name in each["containers"]}
    for layer in reversed(layers[container]):
        for part in layer.split("|"):
            name = f"{container}.{part.strip(' ()')}"
            if name in layers:
                yield from lowest_first(name)
            else:
                yield name
