"""`fusion-bench`: Fusion and its peers on one GPU, in one run.

A suite is a list of workloads (:mod:`seed2`). Each writes its program in the dialect, knows the same computation
for numpy, PyTorch and JAX, and has bars that its row must clear. Nothing here imports PyTorch or JAX before it is
asked to run them, so programs can be written and compiled on a machine that has neither.
"""
