"""Acceptor, channels, mute reasons, pending answers, purgatory. Nothing here parses frames."""
