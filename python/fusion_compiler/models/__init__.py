"""Writes training steps of small and large models as MLIR text of the fusion dialect."""
