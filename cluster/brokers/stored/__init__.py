"""What follows documents of the registry, and changes them."""
