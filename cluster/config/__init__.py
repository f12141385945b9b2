"""Tables of settings: each is defined once; parsing, checks and descriptions are derived."""
