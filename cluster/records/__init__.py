"""Record batch v2: parse, validate, build, read, compress. Bytes in, bytes out; no I/O."""
