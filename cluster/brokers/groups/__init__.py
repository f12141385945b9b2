"""The group coordinator of one broker, histories of rebalances, and the lag of groups."""
