"""Acceptor, channels, mute reasons and purgatory. They order frames but do not parse them."""
