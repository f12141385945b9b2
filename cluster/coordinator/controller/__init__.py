"""Leaders, assignment, epochs: pure plans over the cluster's state, and their driver."""
