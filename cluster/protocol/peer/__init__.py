"""What brokers say to each other: one class for each message, one table of them.

`control` and `replication` hold the messages, `codec` the table with `encode` and `decode`. What a
broker receives is checked there, once; its handlers need not check kinds again.
"""
