"""A broker as a member of its cluster: its registration, the controller and its peers."""
