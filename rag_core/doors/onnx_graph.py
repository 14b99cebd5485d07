"""An ONNX graph under construction: constants and operators go in, a model file comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FLOAT", "INT64", "UINT8", "Graph"]

FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8
_OPSET = 20  # the first with Gelu
_IR = 9  # what onnxruntime 1.17 and later read


class Graph:
    """Nodes are added in the order they run; every method returns the name of what it made."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        """A tensor that is part of the model; the first value given for a name is kept."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        return name

    def ints(self, *values: int) -> str:
        """A list of whole numbers, as axes and shapes are given."""
        return self.constant(f"ints {values}", np.array(values, np.int64))

    def number(self, value: float) -> str:
        """One float32."""
        return self.constant(f"number {value}", np.float32(value))

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """One operator of https://onnx.ai/onnx/operators."""
        name = out or f"{kind} {len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def save(self, file: Path, inputs: list[str], output: str, shape: list[str | int]) -> None:
        """Check and write the model. Inputs are (batch, length) int64, the output is float32 of that shape."""
        given = [helper.make_tensor_value_info(name, INT64, ["batch", "length"]) for name in inputs]
        made = helper.make_tensor_value_info(output, FLOAT, shape)
        graph = helper.make_graph(self._nodes, file.stem, given, [made], list(self._constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
        onnx.checker.check_model(model)
        onnx.save(model, file)
