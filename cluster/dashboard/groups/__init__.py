"""The page's groups: their list, one opened, why it rebalances, reset of its offsets."""
