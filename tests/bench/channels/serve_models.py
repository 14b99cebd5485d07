"""The models of Citegram behind OpenAI's protocol, so that every peer uses the same: a GGUF and the embedder.

    .venv/bin/python tests/bench/channels/serve_models.py MODELS GGUF [--port 8101]

A model whose name holds "query" embeds questions, any other posts.
"""

import argparse
import asyncio
from pathlib import Path

import uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
from starlette.responses import JSONResponse
from starlette.routing import Route

from rag_core.models.active_models import list_pulled_models
from rag_core.models.catalog import ModelRole
from rag_core.models.onnx_models import open_embedder


def build_app(models, gguf):
    """Build the server of llama-cpp-python, with embeddings by the best model of the folder."""
    model = ModelSettings(
        model=str(gguf), model_alias="local", n_ctx=8192, n_threads=1, n_threads_batch=1, verbose=False
    )
    app = create_app(server_settings=ServerSettings(), model_settings=[model])
    row = list_pulled_models(ModelRole.EMBEDDER, models)[-1]
    embedder = asyncio.run(open_embedder(row, models / row.name))

    known = {}  # all peers embed the same posts

    async def embed(request):
        asked = await request.json()
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        of_questions = "query" in asked["model"]
        for text in {text: 0 for text in texts if (text, of_questions) not in known}:
            vector = await embedder.query(text) if of_questions else (await embedder.passages([text]))[0]
            known[text, of_questions] = vector.tolist()
        data = [
            {"object": "embedding", "index": n, "embedding": known[text, of_questions]} for n, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return JSONResponse({"object": "list", "model": asked["model"], "data": data, "usage": usage})

    app.router.routes.insert(0, Route("/v1/embeddings", embed, methods=["POST"]))
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--port", type=int, default=8101)
    args = parser.parse_args()
    uvicorn.run(build_app(args.models, args.gguf), host="127.0.0.1", port=args.port, log_level="warning")
