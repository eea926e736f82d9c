"""Trained networks for other libraries and languages.

`methods` has the methods of networks and fitted estimators. They build a `Chain`, and each of the other modules
converts a chain to one library or language.
"""
