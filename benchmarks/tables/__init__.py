"""Predictions on tables: datasets, those who predict, and what their results say."""
