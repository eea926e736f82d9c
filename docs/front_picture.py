"""Draw ``_static/networks.png``, the picture of the README and the front page: ``python docs/front_picture.py``.

It shows the two networks of the gallery's first example side by side.
"""

import runpy
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from PIL import Image

from dconnet.inspection.plotting import style

HERE = Path(__file__).parent


def main() -> None:
    """Run the example, and draw its two displays once more in one figure."""
    example = runpy.run_path(str(HERE.parent / "examples" / "gallery" / "plot_1_hinges.py"))
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained", width_ratios=(1.0, 1.05))
        for display, axis in zip((example["curve"], example["surface"]), axes, strict=True):
            display.plot(ax=axis)
        drawn = BytesIO()
        figure.savefig(drawn, dpi=180)
    Image.open(drawn).convert("RGB").quantize(96).save(HERE / "_static" / "networks.png", optimize=True)


if __name__ == "__main__":
    main()
