"""The controller: pure plans over the cluster's state, and the driver that carries them out."""
