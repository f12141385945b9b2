"""Imports kafka-python, which reads resources in a deprecated way, without the warning."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401 - only for its effect on later imports
