"""The error of Core ML packages."""


class CoreMLError(ValueError):
    """A package, or a request about one, that cannot be used; says what and the way out."""
