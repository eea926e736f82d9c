"""What lets a page carry style, scripts and data of its own, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any


def security_policy(style: str, script: str | None) -> str:
    """A content security policy by which one style sheet, one script and pictures inside the page are all there is.

    Style sheet and script are known by the hash of what is between their tags, so an element that a name or a label
    brought in would not be run, and handlers and styles in attributes do nothing.

    Parameters
    ----------
    style : str
        Content of the style element.
    script : str or None
        Content of the script element, if there is one.
    """
    policy = f"default-src 'none'; img-src data:; style-src {_source(style)}; base-uri 'none'; form-action 'none'"
    return policy if script is None else f"{policy}; script-src {_source(script)}"


def _source(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def json_block(data: Any) -> str:
    r"""Data as JSON that cannot end the script element that it stands in.

    All characters beyond ASCII are escaped, among them the line separators that JavaScript once took for ends of lines.

    Examples
    --------
    >>> from dconnet.inspection.saved.report.embedding import json_block
    >>> print(json_block(["</script>", "é & ü"]))
    ["\u003c/script\u003e","\u00e9 \u0026 \u00fc"]
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
