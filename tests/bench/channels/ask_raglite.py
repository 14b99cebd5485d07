"""RAGLite, asked by lines: its search over DuckDB, its prompt, then the model.

    OPENAI_API_BASE=http://127.0.0.1:8101/v1 OPENAI_API_KEY=- PEER/bin/python tests/bench/channels/ask_raglite.py DIR DB

Its splitter of sentences is a model of a hub; where none can be reached, a post is split at its lines instead.
"""

import sys
from pathlib import Path

import litellm
import raglite._insert
from peers import BEST_POSTS, MAX_TOKENS, format_question, read_posts, serve
from raglite import Document, RAGLiteConfig, add_context, hybrid_search, insert_documents, rag, retrieve_context

local = {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0}
litellm.register_model({
    "openai/local": local | {"mode": "chat", "max_tokens": 8192, "max_input_tokens": 8192},
    "openai/e5": local | {"mode": "embedding", "max_tokens": 512, "output_vector_size": 384},
})  # fmt: skip
WRITING = {"max_tokens": MAX_TOKENS, "temperature": 0}
complete = litellm.completion
raglite._rag.completion = lambda *given, **named: complete(*given, **named | WRITING)
raglite._insert.split_sentences = lambda text, **_: text.splitlines(keepends=True)

config = RAGLiteConfig(
    db_url=f"duckdb:///{sys.argv[2]}",
    llm="openai/local",
    embedder="openai/e5",
    reranker=None,
    search_method=hybrid_search,
    vector_search_query_adapter=False,
)
posts = read_posts(Path(sys.argv[1]))
documents = [
    Document.from_text(post["shown"], id=post["link"], url=post["link"], channel=post["channel"]) for post in posts
]
insert_documents(documents, max_workers=1, config=config)


def answer(request):
    only = {"channel": request["reader"]}
    spans = retrieve_context(request["question"], num_chunks=BEST_POSTS, metadata_filter=only, config=config)
    messages = [add_context(format_question(request), spans, config)]
    text = "".join(rag(messages, config=config))
    return {"text": text, "links": [str(span.document.url) for span in spans]}


serve(answer)
