"""`vrt ...`: each command is a few lines over the library.

Modules named after a command hold its options and load in a blink; what needs torch is imported
when the command runs.
"""

from vrt.cli.app import app, main

__all__ = ["app", "main"]
