"""What a check found, and in so many words what that proves and what it does not."""

from dataclasses import dataclass

from vrt.coreml.beams import BeamResult
from vrt.coreml.divergence import Divergence
from vrt.coreml.findings import Finding
from vrt.coreml.fp16 import Fp16Report
from vrt.coreml.replay import Replay

SHOWN = 5  # operations of the float16 table


@dataclass(frozen=True)
class FunctionReport:
    """One function of the package. `left_out` are inputs whose answers float16 cannot hold."""

    name: str
    operations: int
    replays: tuple[Replay, ...] = ()
    divergence: Divergence | None = None
    beam: BeamResult | None = None
    fp16: Fp16Report | None = None
    left_out: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        found = [line for replay in self.replays for line in replay.lines()]
        found += [f"left out, beyond float16's 65504: {why}" for why in self.left_out]
        if self.divergence is not None:
            found.append(f"first divergence: {self.divergence}")
        if self.beam is not None:
            found.append(f"beam: {self.beam}")
        if self.fp16 is not None:
            found += _fp16_lines(self.fp16)
        return [f"{self.name}: {self.operations} operations", *(f"  {line}" for line in found)]


@dataclass(frozen=True)
class CheckReport:
    """`exact`: float32 throughout, so that a beam must not part from torch's."""

    package: str
    kind: str
    digest: str
    exact: bool
    findings: tuple[Finding, ...]
    functions: tuple[FunctionReport, ...]

    @property
    def failures(self) -> list[str]:
        """Why the package is not right, most telling first."""
        found = []
        for function in self.functions:
            failed = [r for r in function.replays if not r.ok]
            if failed and function.divergence is not None:
                found.append(f"first divergence: {function.divergence}")
            elif failed:
                diff = failed[0].failures[0].diff
                found.append(f"{failed[0].against}: {diff.name} at {diff.first}")
            if self.exact and function.beam is not None and not function.beam.ok:
                found.append(f"beam: {function.beam}")
        return found + [str(f) for f in self.findings if f.level == "error"]

    @property
    def ok(self) -> bool:
        return not self.failures

    def line(self) -> str:
        """`ok NAME`, or `FAIL NAME: why`."""
        return f"ok {self.package}" if self.ok else f"FAIL {self.package}: {self.failures[0]}"

    def text(self) -> str:
        """All of it, for people."""
        lines = [self.line(), f"{self.kind}, digest {self.digest}"]
        lines += [str(finding) for finding in self.findings]
        lines += [line for function in self.functions for line in function.lines()]
        return "\n".join([*lines, *self.proven()])

    def proven(self) -> list[str]:
        """What this run shows, and what it cannot."""
        replays = [r for f in self.functions for r in f.replays]
        apple = [r for r in replays if r.against.startswith("Core ML")]
        compared = [r for r in replays if r not in apple]
        if not compared:
            lines = ["Proven: nothing; there was no answer of torch to compare with."]
        elif self.ok:
            calls = sum(r.calls for r in compared)
            how = "in float32" if self.exact else "within the limits above, rounded where it says"
            lines = [
                f"Proven: on these {calls} calls the program and the weights on the disk compute"
                f" what torch computes, by the documented semantics of MIL, {how}."
            ]
        else:
            lines = ["Proven: the package is not what it should be; see above."]
        if apple:
            return [*lines, "Not proven: other devices, other compute units, placement, speed."]
        return [
            *lines,
            "Not proven: anything of Apple's kernels, placement or speed: no Core ML ran here.",
        ]


def _fp16_lines(report: Fp16Report) -> list[str]:
    widest = report.widest
    drift = ", ".join(f"{name} {value:.2g}" for name, value in report.drift.items())
    lines = [f"in float16, by rounding after every operation: {drift or 'no float output'}"]
    if widest is not None:
        lines.append(
            f"  largest number {widest.largest:.3g} in {widest.name} ({widest.type}),"
            f" {widest.headroom:.3g} times below 65504"
        )
    for row in report.harmful[:SHOWN]:
        lines.append(
            f"  {row.name} ({row.type}): {row.overflowed:.1%} overflow,"
            f" {row.log_of_zero:.1%} logs of 0"
        )
    return lines
