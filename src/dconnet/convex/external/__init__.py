"""Quadratic programming solvers from other packages."""
