"""Cleaning, flushing, retention, repair and moves of logs; failed and full directories."""
