"""Receipts: recorded runs with parameters, commit, versions, device, digests and numbers."""

from vrt.receipt.digests import digest
from vrt.receipt.plain import ReceiptError
from vrt.receipt.record import Receipt

__all__ = ["Receipt", "ReceiptError", "digest"]
