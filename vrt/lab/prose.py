"""Sentences of a notebook whose numbers come from its own cells."""

import sys


def say(markdown: str) -> None:
    """Show a sentence as prose: `say(f"The best hypothesis has **{p:.2f}** of the list.")`."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import Markdown, display

        display(Markdown(markdown))
    else:
        print(markdown)
