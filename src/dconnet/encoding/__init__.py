"""From the columns of a table to coded features, on which short fits are trained."""
