"""The command `transactions`: lists, describes, explains and ends transactions."""
