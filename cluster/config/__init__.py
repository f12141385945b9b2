"""Settings tables: each setting stated once; parsing, checks, descriptions derived from it."""
