"""Core ML itself, where there is one: what it predicts on this Mac's CPU."""

from vrt.coreml.comparing import compare, worst
from vrt.coreml.golden_vectors import Case, Step
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.replay import Failure, Limits, Replay
from vrt.coreml.toolbox import toolbox


def on_this_mac(package: Package, name: str, cases: list[Case], limits: Limits) -> Replay:
    """Against the interpreter, which rounds as the program declares. macOS only."""
    tools = toolbox()
    model = tools.models.MLModel(
        str(package.path),
        compute_units=tools.ComputeUnit.CPU_ONLY,
        function_name=name if len(package.functions) > 1 else None,
    )
    runner = Interpreter(package, name)
    diffs, failures, calls = [], [], 0
    for case in cases:
        state, theirs = runner.make_state(), model.make_state() if runner.states else None
        for index, step in enumerate(case.steps):
            ours = Step(step.inputs, runner.predict(step.inputs, state), step.gaps)
            found = compare(ours, model.predict(step.inputs, theirs), limits.of_step(ours))
            diffs += found
            failures += [Failure(case, index, diff) for diff in found if not diff.ok]
            calls += 1
    return Replay("Core ML on this Mac's CPU", calls, tuple(worst(diffs)), tuple(failures))
