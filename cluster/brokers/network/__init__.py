"""Acceptor, channels, mute reasons, purgatory: bytes in, frames out, in order. No semantics."""
