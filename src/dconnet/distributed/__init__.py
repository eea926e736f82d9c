"""The same descent on rows that the workers of a Dask cluster hold."""
