"""Core ML packages: exported, run from disk off a Mac, compared with torch, measured on a Mac."""
