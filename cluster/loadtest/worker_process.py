"""One producer or consumer as a process of its own: `python -m cluster.loadtest.worker_process`.

Started by `spawned_process` with an order on stdin; not meant to be run by hand.
"""

import os
import signal
import sys

from cluster.loadtest.parent_pipe import ParentGone, ParentPipe
from cluster.loadtest.worker_orders import ProducerOrder


def main() -> int:
    """Carry out the order. Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    pipe = ParentPipe()
    try:
        order = pipe.order()
        # Imported late: loading the client library takes most of a worker's start.
        from confluent_kafka import KafkaException

        from cluster.loadtest.consumer_process import consume
        from cluster.loadtest.group_consumer_process import consume_in_group
        from cluster.loadtest.producer_process import produce

        try:
            if isinstance(order, ProducerOrder):
                produce(order, pipe)
            elif order.group is not None:
                consume_in_group(order, pipe)
            else:
                consume(order, pipe)
        except KafkaException as problem:
            pipe.tell("failed", error=problem.args[0].str())
            return 1
    except ParentGone:
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # without waiting for the threads of the client library
