"""What a group's coordinators know of its rebalances, and how it is told."""
