"""`configs`: its command, entities, changes and listing."""
