"""The location of this installation: a checkout with its launcher, or an installed package."""

import os
import shlex
import shutil
from pathlib import Path
from typing import Final

DATA_DIR_VARIABLE: Final = "MILENA_DATA_DIR"

_INSTALLED: Final = "milena"
"""The command that `pip install` makes."""
_CALLED_VARIABLE: Final = "MILENA_CALLED"
"""The installed command, in the environment of the processes that it starts."""
_ROOT: Final = Path(__file__).parents[2]
_IS_CHECKOUT: Final = (_ROOT / "bin" / "cluster").exists()


def remember_called(called: str) -> None:
    """Have `launcher` name the command that was called, here and in processes started from here.

    `called` is the first argument of the process.
    """
    os.environ.pop(_CALLED_VARIABLE, None)
    if Path(called).name != _INSTALLED:
        return
    found = shutil.which(_INSTALLED)
    is_on_path = found is not None and Path(found).absolute() == Path(called).absolute()
    os.environ[_CALLED_VARIABLE] = _INSTALLED if is_on_path else str(Path(called).absolute())


def launcher(data_dir: Path | None = None) -> str:
    """The command that a user types here, for the cluster of that directory."""
    called = os.environ.get(_CALLED_VARIABLE)
    if called is not None:
        command = called if called == _INSTALLED else shlex.quote(shown(Path(called)))
    elif _IS_CHECKOUT:
        command = shlex.quote(shown(_ROOT / "bin" / "cluster"))
    else:
        command = _INSTALLED
    if data_dir is None or data_dir == default_data_dir():
        return command
    return f"{command} --data-dir {shlex.quote(shown(data_dir))}"


def chosen_data_dir() -> Path | None:
    """$MILENA_DATA_DIR; None if unset."""
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    return Path(chosen).absolute() if chosen else None


def default_data_dir() -> Path:
    """$MILENA_DATA_DIR, else `var` in the checkout, else `var` here."""
    chosen = chosen_data_dir()
    if chosen is not None:
        return chosen
    return _ROOT / "var" if _IS_CHECKOUT else Path.cwd() / "var"


def shown(path: Path) -> str:
    """A path as a user would type it: relative if it is below the current directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
