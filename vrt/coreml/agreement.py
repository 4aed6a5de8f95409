"""Whether a package, the golden vectors beside it and the model it was made of belong together."""

from vrt.coreml import golden_vectors
from vrt.coreml.contract import WITH_BLANK, Contract
from vrt.coreml.findings import Finding
from vrt.coreml.golden_vectors import FP32_TOLERANCE, GoldenVectors
from vrt.coreml.package import Package
from vrt.coreml.sources import Source


def about_golden(
    package: Package, golden: GoldenVectors | None, contract: Contract | None, digest: str
) -> list[Finding]:
    where = golden_vectors.beside(package.path).name
    if golden is None:
        text = "not there, so torch's answers are known only with --source MODEL"
        return [Finding("note", "golden vectors", where, text)]
    found = []
    if golden.package_digest != digest:
        text = (
            f"made for the package of digest {golden.package_digest[:12]}, this one has"
            f" {digest[:12]}; export again"
        )
        found.append(Finding("error", "golden vectors", where, text))
    if contract is not None and golden.contract != contract:
        differs = _first_difference(golden.contract, contract)
        text = f"{differs}; one of the two was changed: export again"
        found.append(Finding("error", "golden vectors", where, text))
    loose = [n for n, t in golden.tolerances.items() if t.max_abs > FP32_TOLERANCE]
    if loose and golden.contract.exact:
        text = f"{', '.join(loose)} may drift more than {FP32_TOLERANCE}, too much for float32"
        found.append(Finding("error", "golden vectors", where, text))
    return found


def _first_difference(golden: Contract, package: Contract) -> str:
    """The first field that is not the same."""
    for name, there in vars(golden).items():
        if there != getattr(package, name):
            return f"the vectors say {name} {there}, the package {getattr(package, name)}"
    raise AssertionError("equal contracts")


def about_source(contract: Contract | None, source: Source) -> list[Finding]:
    if contract is None:
        text = "without metadata of vrt nothing tells what of the model this is"
        return [Finding("error", "source", source.name, text)]
    if contract.source_digest != source.digest:
        text = (
            f"its weights have the digest {source.digest[:12]}, the package was made of"
            f" {contract.source} with {contract.source_digest[:12]}"
        )
        return [Finding("error", "source", source.name, text)]
    blank = getattr(source.model.config, "blank", None)
    if contract.kind in WITH_BLANK and blank != contract.blank:
        text = f"its blank is {blank}, the metadata say {contract.blank}"
        return [Finding("error", "source", source.name, text)]
    return []
