"""Record batch v2: view, validate, build, read, compress. Bytes in, bytes out; no I/O."""
