"""Groups with members of both protocols, and groups that change their protocol."""
