"""Windows of metric records: their definition, how they are added up, and their directory."""
