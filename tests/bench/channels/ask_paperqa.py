"""PaperQA2 (paper-qa), asked by lines: a post is a paper of one chunk; its search, its evidence, its prompt.

    PEER/bin/python tests/bench/channels/ask_paperqa.py DIR [--evidence]

Without --evidence it does not summarise each post for the question first, which is a call of the model for each post.
"""

import asyncio
import re
import sys
from pathlib import Path

from lmi import EmbeddingModes, LiteLLMEmbeddingModel
from paperqa import Doc, Docs, Settings, Text
from peers import BEST_POSTS, MAX_TOKENS, SERVER, format_question, read_posts, serve

endpoint = {"api_base": SERVER, "api_key": "-"}
writing = {"model": "openai/local", "temperature": 0, "max_tokens": MAX_TOKENS, "timeout": 300, **endpoint}
model = {"model_list": [{"model_name": "openai/local", "litellm_params": writing}]}
settings = Settings(llm="openai/local", llm_config=model, summary_llm="openai/local", summary_llm_config=model)
settings.answer.evidence_k = settings.answer.answer_max_sources = BEST_POSTS
settings.answer.evidence_skip_summary = "--evidence" not in sys.argv
settings.answer.answer_length = "one or two short sentences"
settings.answer.max_concurrent_requests = 1


class Embedder(LiteLLMEmbeddingModel):
    """The embedder, which embeds questions otherwise than posts."""

    def set_mode(self, mode):
        self.name = "openai/e5-query" if mode is EmbeddingModes.QUERY else "openai/e5"


embedder = Embedder(name="openai/e5", config={"kwargs": endpoint})
posts = read_posts(Path(sys.argv[1]))
vectors = asyncio.run(embedder.embed_documents([post["shown"] for post in posts]))
indexes = {}  # one for each set of channels that a reader may read


async def make_index(reader):
    index = Docs()
    for post, vector in zip(posts, vectors, strict=True):
        if post["channel"] in reader:
            doc = Doc(docname=post["link"], dockey=post["link"], citation=post["link"])
            text = Text(text=post["shown"], name=post["link"], doc=doc, embedding=vector)
            await index.aadd_texts([text], doc, settings, embedder)
    return index


async def ask(request):
    reader = tuple(request["reader"])
    if reader not in indexes:
        indexes[reader] = await make_index(request["reader"])
    session = await indexes[reader].aquery(format_question(request), settings, embedding_model=embedder)
    named = [one for one in session.contexts if one.id in session.raw_answer] or session.contexts
    text = re.sub(r"\(pqac-[^)]*\)", "", session.raw_answer)
    return {"text": text, "links": [one.text.doc.dockey for one in named]}


serve(lambda request: asyncio.run(ask(request)))
