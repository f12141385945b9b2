"""What Python's cyclic garbage collector looks at: not what lives as long as its partition.

A full collection looks at every container object. A broker of ten thousand partitions has half a
million, which takes a tenth of a second, and one is due whenever a quarter has been added.
"""

import gc


def leave_out_what_is_there() -> None:
    """No collection looks at the present objects again; they are still freed when unreferenced.

    Constant work. For now and then, while many long-lived objects are made.
    """
    gc.freeze()
