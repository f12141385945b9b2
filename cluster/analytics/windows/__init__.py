"""Windows of metric records: what they are, how they are added up, the directory of files."""
