"""The main job on a real recording, shown, measured and proven: `vrt.demo.run(folder)`."""

from vrt.demo.job import run

__all__ = ["run"]
