"""
How far from the global minimum?
================================

Training a network is not a convex problem, and an optimiser rarely shows how good its result is. With one or two
inputs, ``certify`` proves a lower bound on RegLoss, the regularised squared error, for networks of *every* width. The
distance between RegLoss and the bound is the *global gap*.
"""

import matplotlib.pyplot as plt
import numpy as np

from dconnet import DCONRegressor, certify
from dconnet.inspection.plotting import style

rng = np.random.default_rng(0)
X = np.linspace(-3.0, 3.0, 80).reshape(-1, 1)
y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=80)

# %%
# Networks with one to ten neurons, each with its certificate.

widths = range(1, 11)
models = [DCONRegressor(n_hidden=width, gamma=0.02, scale=False, random_state=0).fit(X, y) for width in widths]
certificates = [certify(model, X, y)[0] for model in models]
for width, found in zip(widths, certificates, strict=True):
    gap = found.gap
    print(f"{width:2} neurons: RegLoss {gap.objective:.4f}, global gap {gap.relative_gap:7.2%} ({gap.kind})")

# %%
# The bound of one network holds for all widths, so the best bound is drawn. The shaded area is the gap.

bound = max(found.gap.bound for found in certificates)
losses = [found.gap.objective for found in certificates]
with style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.3), layout="constrained")
    left.fill_between(widths, bound, losses, color="#0072b2", alpha=0.12, linewidth=0)
    left.plot(widths, losses, "o-", color="#0072b2", markersize=4, label="trained network")
    left.axhline(bound, color="#d55e00", linestyle="--", label="proved bound for every width")
    left.set(xlabel="neurons", ylabel="RegLoss", ylim=(0, None), xticks=widths)
    left.legend()
    right.scatter(X, y, s=10, color="#c4c4c4", label="data")
    for width, colour in ((2, "#e69f00"), (4, "#009e73"), (7, "#0072b2")):
        right.plot(X, models[width - 1].predict(X), color=colour, label=f"{width} neurons")
    right.set(xlabel="x", ylabel="y")
    right.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))

# %%
# From seven neurons on the gap is closed: with this ``gamma``, no network of any width has a lower RegLoss. The
# certificate also reports whether the network is stationary and whether each neuron is at a local minimum of its own
# weights.

print(certificates[6].report())
