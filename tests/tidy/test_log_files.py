"""Files of logs are reached through one module, so that a failing disk can be put under them."""

import ast
from pathlib import Path

import pytest

CLUSTER = Path(__file__).parents[2] / "cluster"
SEAM = CLUSTER / "log" / "files.py"
MODULES = [
    path
    for folder in ("log", "brokers/storage", "brokers/replication")
    for path in sorted((CLUSTER / folder).rglob("*.py"))
    if path != SEAM
]
OF_OS = {
    *("open", "read", "pread", "preadv", "write", "pwrite", "pwritev", "writev", "fsync"),
    *("fdatasync", "ftruncate", "truncate", "rename", "replace", "unlink", "remove", "mkdir"),
    *("posix_fallocate", "statvfs", "copy_file_range", "sendfile"),
}
"""Inquiries about names and sizes are free, and so are `close` and the times of a file."""
OF_PATHS = {
    *("read_bytes", "read_text", "write_bytes", "write_text", "touch", "unlink", "rename"),
    *("rmdir", "symlink_to", "hardlink_to"),
}
ELSEWHERE = {
    "log/cleaner/offset_map.py": {"mmap.mmap"},
    "log/file_systems.py": {"mounts.read_text"},
}
"""Memory, and a file of the system."""


def calls_around_the_seam(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        owner, _, method = name.rpartition(".")
        if (
            (owner == "os" and method in OF_OS)
            or name in ("open", "mmap.mmap", "shutil.rmtree", "shutil.copyfile", "shutil.move")
            or (owner and method in OF_PATHS and "files" not in owner)
        ):
            found.add(name)
    return found - ELSEWHERE.get(str(path.relative_to(CLUSTER)), set())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CLUSTER)))
def test_files_of_logs_are_reached_through_the_seam_only(path: Path) -> None:
    assert calls_around_the_seam(path) == set()
