"""The messages between brokers: one class for each, and one table of them.

`control` and `replication` hold the messages, `codec` the table with `encode` and `decode`.
Messages are checked once, when they are decoded; handlers need not check types again.
"""
