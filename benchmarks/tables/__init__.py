"""Predictions on tables: datasets, methods, and the comparison of their results."""
