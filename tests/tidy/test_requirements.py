"""What pyproject.toml asks for is pinned, with checksums, in etc/requirements/."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SETS = {
    "core": PROJECT["dependencies"],
    "compile": PYPROJECT["build-system"]["requires"],
    **PROJECT["optional-dependencies"],
}


def normal(requirement: str) -> str:
    """`Foo_Bar>=2` is about `foo-bar`."""
    name = re.match(r"[\w.-]+", requirement)
    assert name
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def pinned(name: str) -> set[str]:
    """The packages of a set; what the core has is only there."""
    text = (ROOT / "etc" / "requirements" / f"{name}.txt").read_text()
    return set(re.findall(r"^([a-z0-9-]+)==\S+.* \\\n    --hash=sha256:", text, re.MULTILINE))


@pytest.mark.parametrize("name", SETS)
def test_every_package_of_a_set_is_pinned(name):
    wanted = {normal(requirement) for requirement in SETS[name]}
    assert wanted - pinned(name) - pinned("core") == set(), "run bin/lock"


@pytest.mark.parametrize("name", [*SETS, "uv"])
def test_the_pins_name_no_package_index(name):
    assert "://" not in (ROOT / "etc" / "requirements" / f"{name}.txt").read_text()


def test_modules_are_compiled_by_the_mypy_that_checks_them():
    def versions(name: str) -> set[tuple[str, str]]:
        text = (ROOT / "etc" / "requirements" / f"{name}.txt").read_text()
        return set(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))

    assert versions("compile") <= versions("core") | versions("dev"), "run bin/lock"
