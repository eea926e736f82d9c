"""Trained networks for other libraries and languages: a file for each of them.

All of them start from a `Chain`, a plain description of the function. The methods that networks, fitted estimators and
saved models have are in `dconnet.export.methods`.
"""
