"""Haystack (haystack-ai), asked by lines: BM25 and embeddings joined by reciprocal ranks, then the model.

PEER/bin/python tests/bench/channels/ask_haystack.py DIR
"""

import sys
from pathlib import Path

from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from peers import BEST_POSTS, MAX_TOKENS, SERVER, format_question, read_posts, serve

key = Secret.from_token("-")
store = InMemoryDocumentStore()
posts = read_posts(Path(sys.argv[1]))
documents = [Document(content=post["shown"], meta={name: post[name] for name in ("channel", "link")}) for post in posts]
embedder = OpenAIDocumentEmbedder(api_key=key, model="e5", api_base_url=SERVER, progress_bar=False)
store.write_documents(embedder.run(documents)["documents"])
of_words, of_meaning = InMemoryBM25Retriever(store), InMemoryEmbeddingRetriever(store)
embed = OpenAITextEmbedder(api_key=key, model="e5-query", api_base_url=SERVER)
joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=BEST_POSTS)
writing = {"max_tokens": MAX_TOKENS, "temperature": 0}
model = OpenAIChatGenerator(api_key=key, model="local", api_base_url=SERVER, generation_kwargs=writing, timeout=300)


def answer(request):
    readable = {"field": "meta.channel", "operator": "in", "value": request["reader"]}
    vector = embed.run(request["question"])["embedding"]
    by_words = of_words.run(request["question"], filters=readable)["documents"]
    by_meaning = of_meaning.run(vector, filters=readable)["documents"]
    found = joiner.run([by_words, by_meaning])["documents"]
    context = "\n\n".join(document.content or "" for document in found)
    asked = ChatMessage.from_user(
        f"Given these posts, answer the question.\n\n{context}\n\nQuestion: {format_question(request)}\nAnswer:"
    )
    text = model.run([asked])["replies"][0].text
    return {"text": text, "links": [document.meta["link"] for document in found]}


serve(answer)
