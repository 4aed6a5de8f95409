"""The files of a `.nemo` archive (a tar, plain or gzipped) or of its unpacked folder.

Nothing is written to disk: members are read from where they lie, by name.
"""

import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path, PurePosixPath

GZIP = b"\x1f\x8b"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error)


class WeightsError(ValueError):
    """A checkpoint that cannot be used, with the reason and the way out."""


@dataclass(frozen=True)
class Members:
    """Names, without a leading `./`, and how to open them."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> "Members":
        """Raises `WeightsError` for what is neither a folder nor a whole tar."""
        if path.is_dir():
            return cls(path, tuple(sorted(p.name for p in path.iterdir() if p.is_file())))
        with _tar(path) as tar:
            names = tuple(_plain(m.name) for m in tar.getmembers() if m.isfile())
            tar.fileobj.read()  # to the end, where gzip keeps its checksum
            return cls(path, names)

    @contextmanager
    def open(self, name: str) -> Iterator[BufferedIOBase]:
        """A member that can be sought in.

        Raises:
            WeightsError: there is none of that name.
        """
        if name not in self.names:
            held = ", ".join(self.names[:8]) or "nothing"
            raise WeightsError(f"{self.path} has no {name}; it holds {held}")
        if self.path.is_dir():
            with (self.path / name).open("rb") as file:
                yield file
            return
        with _tar(self.path) as tar:
            # Of two members of one name the later counts, as when a tar is unpacked.
            found = [m for m in tar.getmembers() if m.isfile() and _plain(m.name) == name]
            file = tar.extractfile(found[-1])
            yield file if _is_plain_tar(self.path) else io.BytesIO(file.read())

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    def find(self, name: str) -> str | None:
        """The member of that name, or one whose name ends with it: archives put a hash before."""
        base = PurePosixPath(name).name
        ends = [held for held in self.names if held.endswith((f"_{base}", f"/{base}"))]
        return next((held for held in (name, base, *ends) if held in self.names), None)


def is_archive(path: Path) -> bool:
    """Whether a file begins like a tar, plain or gzipped."""
    with path.open("rb") as file:
        head = file.read(TAR_MAGIC_AT + len(TAR_MAGIC))
    return head.startswith(GZIP) or head[TAR_MAGIC_AT:] == TAR_MAGIC


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:" if _is_plain_tar(path) else "r:gz") as tar:
            yield tar
    except DAMAGED as error:
        raise WeightsError(
            f"{path} ({path.stat().st_size:,} bytes) is no whole .nemo archive ({error}); copy or"
            " download it again"
        ) from error


def _is_plain_tar(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) != GZIP


def _plain(name: str) -> str:
    return str(PurePosixPath(name))
