"""What calls a package's function: the interpreter on any machine, Core ML itself on a Mac.

scorer = open_scorer(["predictor-k8.mlpackage", "joint-k8.mlpackage"])
scorer = open_scorer(["fused-k8.mlpackage"], run=predicted)          # on a Mac
malsd(scorer, frames, lengths, BeamConfig(beam_size=8))
"""

from collections.abc import Callable, Sequence
from os import PathLike

from vrt.coreml import apple
from vrt.coreml.contract import Contract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package, open_package
from vrt.coreml.scorer import Beam, CoreMLScorer, FusedScorer, Runner

Run = Callable[[Package, str], Runner]


def interpreted(package: Package, function: str = "main") -> Runner:
    """By vrt's interpreter; what a package keeps as state begins as zeros."""
    runner = Interpreter(package, function)
    state = runner.make_state()
    return lambda feeds: runner.predict(feeds, state)


def predicted(package: Package, function: str = "main") -> Runner:
    """By Core ML on this Mac's CPU. Raises `CoreMLError` elsewhere."""
    return apple.load(package, function)()


def open_scorer(
    paths: Sequence[str | PathLike[str]], function: str = "main", run: Run = interpreted
) -> CoreMLScorer | FusedScorer:
    """A predictor and a joint, or a fused package, as what a search asks.

    Raises:
        CoreMLError: other packages than these, or two that do not belong together.
    """
    found = {_contract(p).kind: p for p in map(open_package, paths)}
    if len(paths) == 1 and found.keys() == {"fused"}:
        package = found["fused"]
        contract = _contract(package)
        return FusedScorer(Beam.of(contract, function), run(package, function), contract.sizes["J"])
    if len(paths) != 2 or found.keys() != {"predictor", "joint"}:
        raise CoreMLError(
            f"a scorer takes a predictor and a joint, or one fused package, not {len(paths)} of"
            f" {', '.join(found)}"
        )
    predictor, joint = found["predictor"], found["joint"]
    beams = [Beam.of(_contract(part), function) for part in (predictor, joint)]
    if beams[0] != beams[1] or _weights(predictor) != _weights(joint):
        raise CoreMLError(
            f"{predictor.path.name} is of {_contract(predictor).source} with {beams[0]},"
            f" {joint.path.name} of {_contract(joint).source} with {beams[1]}: export both of one"
            " model and one beam"
        )
    return CoreMLScorer(beams[0], run(predictor, function), run(joint, function))


def _contract(package: Package) -> Contract:
    if package.contract is None:
        raise CoreMLError(
            f"{package.path.name} has no metadata of vrt, so its blank and beam are not known;"
            " export it with `vrt coreml export`"
        )
    return package.contract


def _weights(package: Package) -> str:
    return _contract(package).source_digest
