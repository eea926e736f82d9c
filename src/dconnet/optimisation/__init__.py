"""Exact optimisation over trained networks: global optima, ranges and Lipschitz constants."""

from dconnet.optimisation.lipschitz import Steepest, lipschitz_constant
from dconnet.optimisation.search import Optimum, OptimumStatus, Progress, optimise, output_range

__all__ = ["Optimum", "OptimumStatus", "Progress", "Steepest", "lipschitz_constant", "optimise", "output_range"]
