"""Creates .venv and installs what pyproject.toml asks for, at the versions of etc/constraints.txt.

Called by venv.sh with the project folder, a checksum of those two files and the wanted sets.
A lock serializes simultaneous first uses; an interrupted attempt is thrown away and made again.
"""

import fcntl
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SIZES = {"rollup": "about 520 MB to download, once", "rollup-java": "35 MB"}
"""Of the extras that a person waits for."""
LARGE_MB = 20
TICK_S = 0.5


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
    # A cluster may run on an environment that only lacks an extra: that is never thrown away.
    is_core = "core" in sets
    if is_core:
        (folder / ".unfinished").touch()
    names = ", ".join(f"{name}: {SIZES[name]}" if name in SIZES else name for name in sets)
    count = f"{len(wanted)} package{'s' if len(wanted) != 1 else ''}"
    with phase(f"Installing {count} ({names})"):
        status = run_pip(
            [
                *(folder / "bin" / "python", "-m", "pip", "install"),
                *("--no-input", "--disable-pip-version-check", "--prefer-binary"),
                *("--progress-bar", "off"),
                *("--constraint", root / "etc" / "constraints.txt"),
                *wanted,
            ],
            folder / ".downloads",
            lock,
        )
    if is_core and status >= 0:  # pip itself gave up, and leaves the environment as it was
        (folder / ".unfinished").unlink()
    if status != 0:
        say("Cannot install: the first use needs a package index. Fix the above and try again.\n")
        return 1
    for name in sets:
        (folder / f".installed-{name}").write_text(checksum + "\n")
    return 0


def run_pip(command: list[object], scratch: Path, lock: int) -> int:
    """Run pip, saying what it is at whenever that takes long. Returns its exit status.

    It downloads and builds in `scratch`: the system's temporary folder may be too small for Spark.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(scratch)},
            pass_fds=[lock],  # pip keeps the lock if this process is killed
        ) as pip:
            lines: queue.Queue[str | None] = queue.Queue()
            threading.Thread(target=forward, args=(pip.stdout, lines), daemon=True).start()
            watch(lines)
            return pip.wait()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def forward(source: Iterable[str], lines: "queue.Queue[str | None]") -> None:
    """Every line, then None."""
    for line in source:
        lines.put(line)
    lines.put(None)


def watch(lines: "queue.Queue[str | None]") -> None:
    """Show pip's long steps until it ends; on a terminal also the seconds of the present one."""
    step, began, shown = "", time.monotonic(), ""
    while True:
        try:
            line = lines.get(timeout=TICK_S)
        except queue.Empty:
            if step and sys.stderr.isatty():
                say("\b" * len(shown))
                shown = f"{time.monotonic() - began:.0f} s"
                say(shown)
            continue
        next_step = long_step(line) if line is not None else None
        if line is None or (next_step and next_step != step):
            say("\b" * len(shown) + " " * len(shown) + "\b" * len(shown))
            if next_step is None:
                return
            step, began, shown = next_step, time.monotonic(), ""
            say(f"\n  {step} ... ")


def long_step(line: str) -> str | None:
    """What a line of pip's says it begins, if that takes long."""
    download = re.match(r" *Downloading (\S+?)-\d\S* \((\d+)[.\d]* MB\)", line)
    if download and int(download[2]) >= LARGE_MB:
        return f"downloading {download[1].rpartition('/')[2]}, {download[2]} MB"
    build = re.match(r" *Building wheel for (\S+)", line)
    if build:
        return f"preparing {build[1]}"
    return "unpacking" if line.startswith("Installing collected packages") else None


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
