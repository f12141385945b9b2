"""From a frame to its handler and back."""
