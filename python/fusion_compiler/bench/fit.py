# ===- fit.py - A device file's figures from times of whole programs -------=== #
#
# The compiler's roofline model over arrays, and a fit of the few figures in it that no
# single measurement gives: what a run and a launch cost, and which share of the device
# each class of kernels reaches. Residuals are logarithms of ratios, so that small and
# large programs count the same; large ones are cut (Huber), and what the times say
# nothing about stays near where it began. What is predicted for a claim comes from the
# compiler itself (cost_model.py), never from here.
#
# ===----------------------------------------------------------------------=== #
"""Fits a device file to measured times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

#: Keys of `kernels` in a device file, in the compiler's order.
CLASSES = ("loop", "row_reduce", "column_reduce", "transpose", "product", "convolution", "other", "operand_sum",
           "slope")
#: Where a class begins, and its keys: a kernel that fills the device, with some time at its ends.
_FIGURES = {"fixed_us": 0.2, "memory_share": 0.9, "arithmetic_share": 0.5, "reread_share": 0.3, "spread": 1.0}
#: Libraries have smaller tiles than are counted where there are few.
_TILES = {"product": 3.0, "convolution": 3.0}
#: How far a figure may be from where it began, as a logarithm, at the cost of one standard error of a program.
_FREEDOM = {"run_us": 1.0, "launch_gap_us": 0.5, "cache_bandwidth": 0.5, "saturating_units": 0.5, "fixed_us": 1.5,
            "memory_share": 0.5, "arithmetic_share": 1.0, "reread_share": 1.5, "spread": 0.7}
#: A residual counts in full up to here: 15 %.
_KNEE = 0.15
#: Of a program, where a figure's distance from its beginning is weighed against it.
_ERROR = 0.15
_STEPS = 60


@dataclass
class Work:
    """Kernels of programs, one row each, as `fusion-print-costs` tells them."""

    program: np.ndarray
    kernel: np.ndarray  # index in CLASSES
    memory: np.ndarray
    cached: np.ndarray
    reread: np.ndarray
    spilled: np.ndarray
    blocks: np.ndarray
    seconds: np.ndarray  # of arithmetic, at the device's rates
    programs: int

    @staticmethod
    def of(programs: Sequence[Sequence[Mapping]], device: Mapping) -> "Work":
        """From each program's `kernels`."""
        rates = {f"{table}.{kind}": rate for table in ("vector_flops", "matrix_flops")
                 for kind, rate in device[table].items()}
        rows = [(index, CLASSES.index(kernel["class"]), kernel["memory_bytes"], kernel["cached_bytes"],
                 kernel["reread_bytes"], kernel["spilled_bytes"], kernel["blocks"],
                 sum(amount / rates[name] for name, amount in kernel["flops"].items()))
                for index, kernels in enumerate(programs) for kernel in kernels]
        columns = np.array(rows, dtype=np.float64).reshape(-1, 8).T
        return Work(columns[0].astype(int), columns[1].astype(int), *columns[2:], len(programs))


def predict(work: Work, device: Mapping) -> np.ndarray:
    """Microseconds of each program: the compiler's model `roofline`."""
    given = device.get("kernels", {})
    figures = {key: np.array([given.get(name, {}).get(key, 0.0 if key == "fixed_us" else 1.0) for name in CLASSES])
               for key in _FIGURES}
    blocks = np.maximum(work.blocks * figures["spread"][work.kernel], 1)
    of_units = np.minimum(1, blocks / device["units"]) * figures["arithmetic_share"][work.kernel]
    of_bandwidth = np.minimum(1, blocks / device["saturating_units"]) * figures["memory_share"][work.kernel]
    memory = work.memory / device["memory_bandwidth"] + work.cached / device["cache_bandwidth"]
    again = work.reread / device["cache_bandwidth"] + work.spilled / device["memory_bandwidth"]
    again *= figures["reread_share"][work.kernel]
    seconds = np.maximum(memory / of_bandwidth, work.seconds / of_units) + again / of_bandwidth
    us = device["launch_gap_us"] + figures["fixed_us"][work.kernel] + 1e6 * seconds
    return device.get("run_us", 0.0) + np.bincount(work.program, us, work.programs)


def _start(device: Mapping, work: Work) -> dict[tuple[str, ...], float]:
    """The figures to fit, by path, and where they begin: of the classes that there is work of."""
    begin = {("run_us",): device.get("run_us") or 0.5}
    for key in ("launch_gap_us", "cache_bandwidth", "saturating_units"):
        begin[(key,)] = float(device[key])
    given: Mapping[str, Any] = device.get("kernels", {})
    for index, name in enumerate(CLASSES):
        mine = work.kernel == index
        for key, value in _FIGURES.items() if mine.any() else ():
            if key == "reread_share" and not (work.reread + work.spilled)[mine].any():
                value = 1.0
            if key == "spread":
                value = _TILES.get(name, value)
            begin[("kernels", name, key)] = max(given.get(name, {}).get(key, value), 1e-3)
    return begin


def _with(device: Mapping, figures: Mapping[tuple[str, ...], float]) -> dict:
    """The device with these figures. Keys stay in the order of a device file."""
    result = {**device, "kernels": {name: dict(entry) for name, entry in device.get("kernels", {}).items()}}
    for path, value in figures.items():
        place = result
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    links = result.pop("links", None)
    return result if links is None else {**result, "links": links}


def fit(device: Mapping, programs: Sequence[Sequence[Mapping]], measured: Sequence[float]) -> dict:
    """The device whose predictions are nearest to `measured`, microseconds of each program. Figures of classes that
    no program has are left as they are."""
    work, target = Work.of(programs, device), np.log(np.asarray(measured, dtype=np.float64))
    begin = _start(device, work)
    paths, origin = list(begin), np.log(np.array(list(begin.values())))
    freedom = np.array([_FREEDOM[path[-1]] for path in paths])
    # More than the device has, nothing reaches.
    highest = np.array([np.log(device["units"]) if path[-1] == "saturating_units" else
                        0.0 if path[-1].endswith("_share") else np.inf for path in paths])
    origin = np.minimum(origin, highest)

    def residuals(at):
        figures = dict(zip(paths, np.exp(at)))
        return np.log(predict(work, _with(device, figures))) - target

    def cost(at, left):
        size = np.abs(left)
        huber = np.where(size <= _KNEE, size**2 / 2, _KNEE * (size - _KNEE / 2))
        return huber.sum() / _ERROR**2 + (((at - origin) / freedom)**2).sum() / 2

    at = origin.copy()
    left, damping = residuals(at), 1e-2
    now = cost(at, left)
    for _ in range(_STEPS):
        slope = np.empty((len(left), len(at)))
        for i in range(len(at)):
            moved = at.copy()
            moved[i] -= 1e-5  # downwards: never beyond what is highest
            slope[:, i] = (left - residuals(moved)) / 1e-5
        weight = np.minimum(1, _KNEE / np.maximum(np.abs(left), 1e-12)) / _ERROR**2
        normal = slope.T @ (slope * weight[:, None]) + np.diag(1 / freedom**2)
        downhill = slope.T @ (weight * left) + (at - origin) / freedom**2
        before = now
        while damping < 1e8:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), downhill)
            tried = np.minimum(at - step, highest)
            there = residuals(tried)
            value = cost(tried, there)
            if value < now:
                at, left, now, damping = tried, there, value, max(damping / 5, 1e-9)
                break
            damping *= 4
        else:
            break
        if before - now < 1e-9 * before:
            break
    found = {path: float(f"{value:.4g}") for path, value in zip(paths, np.exp(at))}
    found[("saturating_units",)] = max(1, round(found[("saturating_units",)]))
    return _with(device, found)
