# ===- frontend/onnx - The ONNX frontend ----------------------------------=== #
#
# loader reads and checks the file, importer walks it, ops/ has one function an op.
#
# ===----------------------------------------------------------------------=== #
"""Imports ONNX models."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ...errors import FusionError
from ...ir.module import Module
from .importer import Importer
from .loader import load_model
from .shapes import InputShapes


def import_onnx(path: str, batch: Optional[int] = None, dynamic_batch: Optional[tuple[int, int]] = None,
                input_shapes: Optional[dict[str, list]] = None,
                constant_inputs: Optional[dict[str, np.ndarray]] = None) -> Module:
    """The module of the model in the file `path`.

    `batch` fixes free leading dimensions; `dynamic_batch` keeps them, as one batch in
    [low, high]; `input_shapes` gives sizes by input name, "B" standing for the batch;
    `constant_inputs` replaces inputs by arrays. Raises FusionError.
    """
    model = load_model(path)
    shapes = InputShapes(batch, dynamic_batch, input_shapes, constant_inputs)
    try:
        return Importer(model, shapes).run()
    except FusionError as error:
        if error.code == 2:
            raise
        raise FusionError(f"{path}: {error}", error.code) from error
