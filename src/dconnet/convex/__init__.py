"""The convex programme of one DCA step, and its solvers."""
