"""Makes .venv and installs sets of packages; a set is a file of exact versions and checksums.

Called by venv.sh with the project folder and the sets (`core` is etc/requirements/core.txt). pip,
which Python brings, installs uv; uv installs the sets, or pip where uv cannot. A lock serializes
simultaneous first uses; the next call repairs what an interrupted one left unfinished. Where there
is a C compiler, the one module that is C is compiled in place, again when its source has changed.

With --environment=FOLDER before them, the sets are installed in an environment of that folder
instead; the caller holds a lock (cluster/compilation/build_process.py).
"""

import fcntl
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from index_settings import for_uv

SIZES = {"rollup": "about 520 MB to download, once", "rollup-java": "35 MB"}
"""Download sizes shown in the progress line of sets that take long to install."""


Command = list[str | Path]

_HOW_TO_COMPILE = (
    "import sysconfig as s; print(s.get_config_var('EXT_SUFFIX') or '.so');"
    " print(s.get_paths()['include']); print(s.get_config_var('LDSHARED') or 'cc -shared')"
)


class CannotInstallError(Exception):
    """The packages cannot be installed; the message says what the user can do."""


def main(root: Path, sets: list[str]) -> None:
    """Make .venv under `root` if needed and install the sets not yet installed in it.

    Raises CannotInstallError.
    """
    with (root / "pyproject.toml").open() as lock:  # any open file can be locked
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with phase("Waiting for another first use to finish"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)  # a running installer keeps it if this is killed
        environment = Environment(root)
        environment.fill(sets)
        environment.compile_walk(root / "cluster" / "records" / "_walk.c")


class Environment:
    """The project's .venv, or another environment that uses the uv of .venv.

    In it `.installed-SET` is a copy of what the set was installed from.
    """

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._folder = folder or root / ".venv"
        self._python = self._folder / "bin" / "python"
        self._requirements = root / "etc" / "requirements"
        self._main = self if folder is None else Environment(root)

    def fill(self, sets: list[str]) -> None:
        """Make it if needed, and install the sets not yet installed. Raises CannotInstallError."""
        if not self.is_usable():
            self.create()
        missing = [name for name in sets if not self.has(name)]
        if missing:
            self.install(missing)

    def is_usable(self) -> bool:
        """Whether .venv exists, is complete, and has a Python that still runs."""
        if self._mark("unfinished", "core").exists() or not self._python.exists():
            return False
        return subprocess.run([self._python, "-c", ""], capture_output=True).returncode == 0

    def create(self) -> None:
        """Make .venv from scratch, with nothing installed."""
        reason = "again: the last attempt was interrupted" if self._folder.exists() else "first use"
        name = self._folder.name
        with phase(f"Creating {name} ({reason}) with Python {sys.version.split()[0]}"):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            self._mark("unfinished", "core").touch()
            venv.create(self._folder, symlinks=True)

    def has(self, name: str) -> bool:
        """Whether the set is installed from the present content of its file."""
        installed = self._mark("installed", name)
        return installed.exists() and installed.read_bytes() == self._file(name).read_bytes()

    def install(self, sets: list[str]) -> None:
        """Install the sets. Raises CannotInstallError."""
        pip: Command = [*self._pip(), "--no-input", "--disable-pip-version-check"]
        uv: Command = [self._main.uv, "pip", "install", "--python", self._python]
        scratch = self._folder / ".downloads"  # the system's may be too small for Spark
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        variables = {**os.environ, "TMPDIR": str(scratch), "PIP_ROOT_USER_ACTION": "ignore"}
        try:
            with subprocess.Popen(
                [*pip, "config", "list"], stdout=subprocess.PIPE, env=variables, text=True
            ) as config:
                has_uv = self._main.has("uv") or (
                    self._main is self and self._install_uv(pip, variables)
                )
                variables |= for_uv(config.communicate()[0], variables)
            # uv may have installed some packages partially before it gave up.
            pip_install: Command = [*pip, "install", *(["--force-reinstall"] if has_uv else [])]
            for name in sets:
                done = has_uv and self._run(name, "uv", uv, variables)
                if not done and not self._run(name, "pip", pip_install, variables):
                    raise CannotInstallError(
                        "packages come from a package index. Fix the above and try again."
                    )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @property
    def uv(self) -> Path:
        """The program, if the set `uv` is installed."""
        return self._folder / "bin" / "uv"

    def compile_walk(self, source: Path) -> None:
        """Compile the module unless this source of it was tried before; Python does its work else.

        `.walk-tried` is a copy of the source, so a machine without a compiler is asked once.
        """
        tried = self._folder / ".walk-tried"
        if not source.exists() or (tried.exists() and tried.read_bytes() == source.read_bytes()):
            return
        how: Command = [self._python, "-c", _HOW_TO_COMPILE]
        asked = subprocess.run(how, capture_output=True, text=True)
        suffix, include, linker = asked.stdout.splitlines()
        built = source.with_suffix(suffix)
        unfinished = built.with_name(f"{built.name}.unfinished")
        options: Command = ["-O2", "-fPIC", f"-I{include}", source, "-o", unfinished]
        with phase(f"Compiling {source.name}"):
            try:
                done = subprocess.run([*shlex.split(linker), *options], capture_output=True)
                is_done = done.returncode == 0
            except OSError:
                is_done = False  # there is no compiler
            if is_done:
                unfinished.replace(built)
            else:
                say("not possible here, the same in Python is used ... ")
        shutil.copyfile(source, tried)

    def _install_uv(self, pip: Command, env: Mapping[str, str]) -> bool:
        return self._run("uv", "pip", [*pip, "install", "--only-binary=:all:", "--retries=1"], env)

    def _run(self, name: str, installer: str, command: Command, env: Mapping[str, str]) -> bool:
        """Have an installer install one set. Returns whether that succeeded."""
        unfinished = self._mark("unfinished", name)
        is_large = name in SIZES
        options: Command = ["--no-deps", "--require-hashes", "--requirement", self._file(name)]
        if not is_large:
            options.append("--quiet")
        if unfinished.exists():  # an earlier attempt may have left packages half installed
            options.append("--reinstall" if installer == "uv" else "--force-reinstall")
        unfinished.touch()
        with phase(f"Installing {name}{f' ({SIZES[name]})' if is_large else ''} with {installer}"):
            if is_large:
                say("\n")
            try:
                status = subprocess.run(
                    [*command, *options], env=env, stdout=sys.stderr, close_fds=False
                ).returncode
            except OSError as problem:  # not made for this machine
                say(f"{problem} ... ")
                status = 1
        if status >= 0:  # it ended by itself, and leaves the environment as it was
            unfinished.unlink()
        if status != 0:
            return False
        shutil.copyfile(self._file(name), self._mark("installed", name))
        return True

    def _pip(self) -> Command:
        """The pip of this Python, else the copy that it carries for new environments."""
        if importlib.util.find_spec("pip") is not None:
            return [sys.executable, "-m", "pip", "--python", self._python]
        standard = Path(os.__file__).parent / "ensurepip" / "_bundled"
        for folder in (standard, Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or standard)):
            for wheel in folder.glob("pip-*.whl"):
                return [self._python, wheel / "pip"]
        raise CannotInstallError(
            f"{sys.executable} has no pip: install python3-pip (or what your system calls it),"
            " and try again."
        )

    def _mark(self, what: str, name: str) -> Path:
        return self._folder / f".{what}-{name}"

    def _file(self, name: str) -> Path:
        return self._requirements / f"{name}.txt"


@contextmanager
def phase(title: str) -> Iterator[None]:
    """Print one progress line on stderr, with the seconds that the block took."""
    say(f"{title} ... ")
    start = time.monotonic()
    yield
    say(f"{time.monotonic() - start:.1f} s\n")


def say(text: str) -> None:
    """Print progress on stderr, since stdout belongs to the command."""
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        if sys.argv[1].startswith("--environment="):
            folder = Path(sys.argv[1].partition("=")[2])
            Environment(Path(sys.argv[2]), folder).fill(sys.argv[3:])
        else:
            main(Path(sys.argv[1]), sys.argv[2:])
    except CannotInstallError as problem:
        say(f"Cannot install: {problem}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        say("\nInterrupted; the next use starts again.\n")
        sys.exit(130)
