"""Transactions: a pure state machine per partition of `__transaction_state`."""
