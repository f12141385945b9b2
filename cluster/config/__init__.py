"""Settings tables: every setting stated once; parsing, checks and descriptions derived from them.

Handles live in `broker` and `topic`, snapshots are made in `settings`.
"""
