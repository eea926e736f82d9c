"""Plots of a fit, as Display objects like those of scikit-learn.

A Display stores the numbers that it draws. ``from_estimator`` computes and draws them; ``plot`` draws them again,
into your own axes if you pass some. Matplotlib is needed only for drawing; install it with
``pip install 'dconnet[plot]'``.
"""

from dconnet.inspection.plotting.canvas import style
from dconnet.inspection.plotting.convergence import ConvergenceDisplay, Run
from dconnet.inspection.plotting.network import NetworkDisplay
from dconnet.inspection.plotting.path import PathDisplay

__all__ = ["ConvergenceDisplay", "NetworkDisplay", "PathDisplay", "Run", "style"]
