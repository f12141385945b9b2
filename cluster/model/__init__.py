"""Vocabulary that every other folder may use: ids, offsets, errors. Imports nothing of ours."""
