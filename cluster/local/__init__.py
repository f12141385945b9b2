"""Clusters that a program starts on this machine, and orders to running ones."""
