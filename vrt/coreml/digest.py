"""One digest of what a package computes, the same for two exports of the same model.

Not of the folder: its manifest has fresh random identifiers, and the order of the protobuf's maps
differs from run to run. The day of conversion is left out too.
"""

from vrt.coreml.package import Package
from vrt.receipt import digest

DAY = "com.github.apple.coremltools.conversion_date"


def package_digest(package: Package) -> str:
    """64 hex digits: of the spec in protobuf's deterministic order, and of each weight file."""
    spec = type(package.spec)()
    spec.CopyFrom(package.spec)
    spec.description.metadata.userDefined.pop(DAY, None)
    parts: dict[str, object] = {"spec": spec.SerializeToString(deterministic=True)}
    parts |= {str(f.relative_to(package.root).as_posix()): f for f in package.weight_files}
    return digest(parts)
