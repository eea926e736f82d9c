"""Many short fits, stacked: families of networks on folds of the rows, weighed by what they predict out of fold."""
