"""A copy of the launchers over a `cluster` that says how it was called, and a package index."""

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_project(folder: Path) -> Path:
    """Launchers, requirements and pyproject.toml, in a new folder that is returned."""
    shutil.copytree(ROOT / "bin", folder / "bin")
    shutil.copytree(ROOT / "etc" / "requirements", folder / "etc" / "requirements")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "cluster").mkdir()
    (folder / "cluster" / "__init__.py").touch()
    (folder / "cluster" / "__main__.py").write_text("import sys; print(*sys.argv[1:], sep='|')")
    return folder


def run(launcher: Path, *words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a launcher to its end."""
    return subprocess.run(
        [launcher, *words],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=240,
    )


class WheelFolder:
    """A folder of wheels that pip finds packages in, and nowhere else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
        """Environment variables."""

    def add(self, name: str, files: dict[str, bytes]) -> str:
        """Make a wheel of version 1.0 of files by path. Returns the line that requires it."""
        facts = f"{name}-1.0.dist-info"
        files = {
            **files,
            f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
            f"{facts}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = [f"{path},sha256={_checksum(content)}," for path, content in files.items()]
        wheel = self._folder / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, content in files.items():
                entry = zipfile.ZipInfo(path)
                entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
                archive.writestr(entry, content)
            archive.writestr(f"{facts}/RECORD", "\n".join([*record, f"{facts}/RECORD,,\n"]))
        return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def _checksum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
