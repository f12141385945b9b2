"""`acls`: its options as rules and filters, its requests, its words."""
