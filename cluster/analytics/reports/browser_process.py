"""Draws an HTML page as a PNG file with a headless browser: Chromium or Chrome of this machine.

Nothing else draws the page as its readers see it, and a library for it is larger.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from cluster.model.errors import UserError

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIMEOUT_S: Final = 60.0
_WIDTH: Final = 1200


def find_browser() -> str:
    """The path of a browser. Raises UserError if there is none."""
    for name in _BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise UserError(
        "--png needs Chromium or Chrome, which draws the page (Debian: apt install chromium);"
        " --html needs neither"
    )


def draw(page: str, height: int, picture: Path) -> None:
    """Write the browser's picture of a document, `height` pixels high. Raises UserError."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="milena-page-") as place:
        source, drawn = Path(place) / "page.html", Path(place) / "page.png"
        source.write_text(page, "utf-8")
        command = [
            *(browser, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *(
                ["--no-sandbox"] if os.geteuid() == 0 else []
            ),  # with a sandbox it refuses to run as root
            *(f"--user-data-dir={place}/profile", f"--window-size={_WIDTH},{height}"),
            *(f"--screenshot={drawn}", source.as_uri()),
        ]
        try:
            subprocess.run(
                command, capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise UserError(f"{browser} could not draw the page: {problem}") from None
        if not drawn.exists():
            raise UserError(f"{browser} drew nothing: use --html")
        draft = picture.with_name(picture.name + ".new")
        try:
            shutil.copyfile(drawn, draft)
            draft.replace(picture)
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise UserError(f"cannot write {picture}: {problem.strerror}") from None
