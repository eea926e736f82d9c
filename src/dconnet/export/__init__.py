"""Trained networks for other libraries and languages.

The methods of networks and fitted estimators in `chain` build a `Chain`, and each of the other modules converts a chain
to libraries or languages.
"""
