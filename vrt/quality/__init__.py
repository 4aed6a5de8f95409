"""Experiments on real speech: each is a function of a model and recordings, and ends in a receipt.

The recordings are those of `vrt.train.corpus`; no choice is made on what is measured here.
"""
