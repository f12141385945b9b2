"""Which files the compiled modules depend on."""

from pathlib import Path

import pytest

from cluster.compilation.manifest import LIST_FILE
from cluster.compilation.sources import OTHER_SOURCES, compiled_modules, digest, sources

ROOT = Path(__file__).parents[3]
LIST = b'[tool.milena]\ncompiled_modules = ["log/a"]\n'
PROJECT = {
    LIST_FILE: LIST,
    **dict.fromkeys(OTHER_SOURCES, b""),
    "cluster/__init__.py": b"",
    "cluster/log/__init__.py": b"",
    "cluster/log/a.py": b"import os\nfrom cluster.model import ids\nfrom cluster.log.b import X\n",
    "cluster/log/b.py": b"def f():\n    import cluster.log.c\n",
    "cluster/log/c.py": b"from cluster.log import a\n",
    "cluster/log/c.pyi": b"",
    "cluster/log/unused.py": b"from cluster.log import a\n",
    "cluster/model/__init__.py": b"from cluster.model.again import Y\n",
    "cluster/model/again.py": b"",
    "cluster/model/ids.py": b"",
}


def test_everything_imported_directly_or_not_is_a_source():
    found = sources(PROJECT.get)
    assert set(PROJECT) - set(found) == {"cluster/log/unused.py"}
    assert all(found[path] == PROJECT[path] for path in found)


@pytest.mark.parametrize("missing", [LIST_FILE, "cluster/log/a.py", *OTHER_SOURCES])
def test_a_missing_source_is_named(missing):
    with pytest.raises(ValueError, match=f"there is no {missing}"):
        sources({**PROJECT, missing: None}.get)


def test_a_source_that_is_no_python_is_named():
    with pytest.raises(ValueError, match=r"cluster/log/b.py, line 1: "):
        sources({**PROJECT, "cluster/log/b.py": b"def"}.get)


def test_a_project_without_a_list_is_refused():
    with pytest.raises(ValueError, match=r"pyproject.toml has no 'milena'"):
        compiled_modules(b"[tool]\n")


def test_the_digest_of_pyproject_is_that_of_the_list():
    same = digest(LIST_FILE, LIST + b"[tool.ruff]\nline-length = 90\n")
    assert same == digest(LIST_FILE, LIST)
    assert digest(LIST_FILE, LIST.replace(b"log/a", b"log/b")) != same


def test_the_sources_of_this_project_have_the_constants_that_compiled_modules_import():
    def read(path: str) -> bytes | None:
        file = ROOT / path
        return file.read_bytes() if file.exists() else None

    found = sources(read)
    assert {f"cluster/{each}.py" for each in compiled_modules(found[LIST_FILE])} < set(found)
    assert "cluster/log/batch_walk.py" in found
    assert not any(path.startswith("cluster/tools/") for path in found)
