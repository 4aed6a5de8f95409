"""What stands for a widget where nobody can use it: in a batch, on GitHub, in a saved file."""

import html
import os
from typing import Any

from vrt.lab.show import BATCH

PLAIN, HTML = "text/plain", "text/html"


def bundle(widget: Any, title: str, text: str) -> Any:
    """The widget's MIME bundle, with `title` and `text` beside it; under the runner these alone.

    `widget` is the bundle, with metadata or without, or None where there is no front end.
    """
    hint = f"{title}: open this notebook in JupyterLab to use it"
    body = f"<pre style='font-family:monospace'>{html.escape(text)}</pre>" if text else ""
    still = {
        PLAIN: f"{hint}\n\n{text}" if text else hint,
        HTML: f"<p><i>{html.escape(hint)}</i></p>{body}",
    }
    if os.environ.get(BATCH) or widget is None:
        return still
    data, metadata = widget if isinstance(widget, tuple) else (widget, {})
    return {**data, **still}, metadata
