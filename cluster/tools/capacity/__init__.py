"""The command `capacity`: figures from the rollup's history, as it was and in other scenarios."""
