"""The error of golden files."""


class GoldenError(ValueError):
    """A golden file, or a request about one, that cannot be used; says what and the way out."""
