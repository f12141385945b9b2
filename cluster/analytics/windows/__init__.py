"""Windows of metric records: what they are, how they are added up, and the directory of their files."""
