"""Prints which tests failed in the last runs of pytest: `python -m tests.support.last_failed`.

For `bin/test --ci`, which runs a few of them again by themselves.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

RECORD: Final = Path(".pytest_cache/v/cache/lastfailed")


def last_failed(root: Path) -> list[str]:
    """The names of the tests, sorted; none where pytest has recorded no failure."""
    try:
        return sorted(json.loads((root / RECORD).read_text()))
    except FileNotFoundError:
        return []


def main() -> int:
    """1 if none failed, or more than `--at-most`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-most", type=int, required=True, metavar="N")
    names = last_failed(Path.cwd())
    print("\n".join(names))
    return 0 if 0 < len(names) <= parser.parse_args().at_most else 1


if __name__ == "__main__":
    sys.exit(main())
