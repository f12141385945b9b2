"""The compiled modules of a checkout: which build is current, its use, and how one is made."""
