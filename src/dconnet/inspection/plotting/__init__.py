"""Pictures of a fit, as Display objects in the manner of scikit-learn.

A Display holds the numbers that it draws. ``from_estimator`` computes and draws them; ``plot`` draws them again,
into axes of your own if you pass some. Matplotlib is imported when something is drawn, not before; it comes with
``pip install 'dconnet[plot]'``.
"""

from dconnet.inspection.plotting.canvas import style
from dconnet.inspection.plotting.convergence import ConvergenceDisplay, Run
from dconnet.inspection.plotting.network import NetworkDisplay
from dconnet.inspection.plotting.path import PathDisplay

__all__ = ["ConvergenceDisplay", "NetworkDisplay", "PathDisplay", "Run", "style"]
