"""What all parts of the group coordinator share."""
