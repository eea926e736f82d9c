"""Files that are written whole or not at all; the training, which writes checkpoints, needs them as well."""

from __future__ import annotations

from dconnet._files import is_stream, written_whole

__all__ = ["is_stream", "written_whole"]
