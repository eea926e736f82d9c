"""The network, the problem that it solves, and the coordinates in which it is solved."""
