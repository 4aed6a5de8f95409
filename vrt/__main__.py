"""`python -m vrt` is `vrt`."""

from vrt.cli import main

main()
