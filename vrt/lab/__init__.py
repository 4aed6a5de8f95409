"""Charts of receipts, for notebooks and for the demo; altair is loaded by its modules only."""
