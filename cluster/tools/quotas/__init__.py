"""`quotas`: one module per subcommand, and shared parts."""
