"""What an installed package holds beside Python modules."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
BUILT = frozenset({".py", ".pyc", ".so", ".c"})


def test_every_other_file_of_the_package_is_installed():
    """Patterns are those of setuptools: below a package, and `*` does not cross folders."""
    packages = [path.parent for path in (ROOT / "cluster").rglob("__init__.py")]
    installed = {
        path
        for package in packages
        for pattern in SETTINGS["package-data"]["*"]
        for path in package.glob(pattern)
    }
    files = {
        path
        for path in (ROOT / "cluster").rglob("*")
        if path.is_file() and path.suffix not in BUILT
    }
    assert sorted(str(path.relative_to(ROOT)) for path in files - installed) == []
