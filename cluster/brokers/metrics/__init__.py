"""What a broker counts and tells of itself: the stats file's figures and the metric records."""
