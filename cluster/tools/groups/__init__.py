"""The command `groups`: consumer groups, their members and committed offsets."""
