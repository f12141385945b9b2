"""Runs coordinators of any kind on the partitions of an internal topic that this broker leads."""
