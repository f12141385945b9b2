"""Records of an internal topic that cannot be decoded. Pure."""


class CorruptRecord(ValueError):
    """The bytes are malformed; the text is one line, without text of the record."""


class UnknownRecord(CorruptRecord):
    """The kind or version of the record is unknown here; newer brokers may write it."""
