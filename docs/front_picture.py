"""Draw ``_static/front.png``, the picture of the README and the front page: ``python docs/front_picture.py``.

It is the figure of the gallery's first example.
"""

import runpy
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from PIL import Image

HERE = Path(__file__).parent


def main() -> None:
    """Run the example and save its figure with few colours, which makes the file small."""
    example = runpy.run_path(str(HERE.parent / "examples" / "gallery" / "plot_01_raw_table.py"))
    drawn = BytesIO()
    example["figure"].savefig(drawn, dpi=180)
    Image.open(drawn).convert("RGB").quantize(96).save(HERE / "_static" / "front.png", optimize=True)


if __name__ == "__main__":
    main()
