"""The experiments of the paper: one module a table or figure, and what they share."""
