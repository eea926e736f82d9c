"""The one table of tolerances. All of them are relative to the size of the programme."""

# Duality gap, and difference of two objective values.
GAP = 1e-9
OBJECTIVE = 1e-9

# Violation of the optimality conditions of a polished answer: rounding, enlarged by the condition of the equations
# (up to 1e6 in the ordinary programmes).
KKT = 1e-9

# The same where only the gap is promised, whose square root bounds it: after warm starts, and where gamma and the
# curvature differ so much that the polish need not find the pattern of rows.
KKT_OF_CLOSED_GAP = 1e-5

# Distance of two solutions, or of a solution from the one that the programme was built around.
SOLUTION = 1e-7

# Quantities that are equal but for the order of the operations.
ROUNDING = 1e-11
