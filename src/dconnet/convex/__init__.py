"""The convex programme of one DCA step, and who solves it."""
