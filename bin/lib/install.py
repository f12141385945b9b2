"""Creates .venv and installs what pyproject.toml asks for, at the versions of etc/constraints.txt.

Called by venv.sh with the project folder, a checksum of those two files and the wanted sets.
A lock serializes simultaneous first uses; an interrupted attempt is thrown away and made again.
"""

import fcntl
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def main(root: Path, checksum: str, sets: list[str]) -> int:
    """Exit status 0 once every set is installed."""
    folder = root / ".venv"
    with (
        root / "pyproject.toml"
    ).open() as lock:  # no file of its own: any open file can be locked
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with phase("Waiting for another first use to finish"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_usable(folder):
            create(folder)
        missing = [name for name in sets if read(folder / f".installed-{name}") != checksum]
        return install(root, checksum, missing, lock.fileno()) if missing else 0


def is_usable(folder: Path) -> bool:
    """Whether an environment is there, complete, with a Python that still runs."""
    python = folder / "bin" / "python"
    if (folder / ".unfinished").exists() or not python.exists():
        return False
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def create(folder: Path) -> None:
    """Make the environment anew."""
    reason = "again: the last attempt was interrupted" if folder.exists() else "first use"
    with phase(f"Creating .venv ({reason}) with Python {sys.version.split()[0]}"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / ".unfinished").touch()
        venv.create(folder, with_pip=True)
        (folder / ".unfinished").unlink()


def install(root: Path, checksum: str, sets: list[str], lock: int) -> int:
    """Install the missing sets in one go and stamp them. Returns the exit status."""
    folder = root / ".venv"
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {"core": project["dependencies"], **project["optional-dependencies"]}
    wanted = [requirement for name in sets for requirement in extras[name]]
    (folder / ".unfinished").touch()
    with phase(f"Installing {len(wanted)} packages ({', '.join(sets)})"):
        status = subprocess.run(
            [
                *(folder / "bin" / "python", "-m", "pip", "install"),
                *("--quiet", "--no-input", "--disable-pip-version-check", "--prefer-binary"),
                *("--constraint", root / "etc" / "constraints.txt"),
                *wanted,
            ],
            stdout=sys.stderr,
            pass_fds=[lock],  # pip keeps the lock if this process is killed
        ).returncode
    if status >= 0:  # pip itself gave up, and leaves the environment as it was
        (folder / ".unfinished").unlink()
    if status != 0:
        say("Cannot install: the first use needs a package index. Fix the above and try again.\n")
        return 1
    for name in sets:
        (folder / f".installed-{name}").write_text(checksum + "\n")
    return 0


def read(stamp: Path) -> str:
    """The checksum of the last installation; empty without one."""
    return stamp.read_text().strip() if stamp.exists() else ""


@contextmanager
def phase(title: str) -> Iterator[None]:
    """One progress line, with how long it took."""
    say(f"{title} ... ")
    start = time.monotonic()
    yield
    say(f"{time.monotonic() - start:.1f} s\n")


def say(text: str) -> None:
    """Progress goes to stderr: stdout belongs to the command."""
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
    except KeyboardInterrupt:
        say("\nInterrupted; the next use starts again.\n")
        sys.exit(130)
