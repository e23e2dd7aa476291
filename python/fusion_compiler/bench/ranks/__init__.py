"""Suites that run on several GPUs of one machine: `overlap`, `train`, and `calibrate --ranks`."""
