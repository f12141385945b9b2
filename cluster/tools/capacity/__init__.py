"""The command `capacity`: what the rollup's history says of sizes, now and supposed."""
