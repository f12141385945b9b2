from cluster.loadtest.worker_orders import (
    ConsumerOrder,
    ProducerOrder,
    order_line,
    read_order,
)

PRODUCER = ProducerOrder(
    client_id="loader-1",
    bootstrap="127.0.0.1:9092",
    topic="orders",
    partitions=3,
    run=1,
    index=0,
    properties={"acks": "all", "linger.ms": 5},
)
CONSUMER = ConsumerOrder(
    client_id="reader-1",
    bootstrap="127.0.0.1:9092",
    topic="orders",
    run=1,
    start_offsets={0: 17, 2: 0},
)
MEMBER = ConsumerOrder("m", "127.0.0.1:9092", "orders", 1, {}, group="g", group_protocol="consumer")


def test_a_worker_reads_the_order_that_was_written():
    for order in (PRODUCER, CONSUMER, MEMBER):
        assert read_order(order_line(order)) == order
