"""`quotas`: one module per subcommand, and what they share."""
