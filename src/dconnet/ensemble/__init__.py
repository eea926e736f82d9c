"""Ensembles of short fits: families, folds, weights and predictions."""
