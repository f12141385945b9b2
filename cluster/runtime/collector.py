"""When Python's cyclic garbage collector runs: never on its own for long.

A full collection looks at every container object. A broker of ten thousand partitions has half a
million, which takes a tenth of a second, and the collector starts one whenever their number has
grown by a quarter. Nearly all of them live as long as their partition and are freed without it.
"""

import gc
from typing import Final

FULL_COLLECTION_MS: Final = 60_000
"""How often `collect` is to be called."""
_NEVER: Final = 1 << 30


def collect_on_request_only() -> None:
    """Young objects are looked at as ever, old ones by `collect` alone."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def leave_out_what_is_there() -> None:
    """No collection looks at the present objects again; they are still freed when unreferenced.

    Constant work. For after many long-lived ones were made.
    """
    gc.freeze()


def collect() -> None:
    """Look at everything that has come since the last `leave_out_what_is_there`."""
    gc.collect()
