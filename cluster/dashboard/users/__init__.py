"""The page's view of users who log in, and of access rules."""
