"""Ask the posts: open the doors, put a question, get a cited answer."""

from rag_core.answer import answer
from rag_core.errors import RagError
from rag_core.rag import Rag, open_rag
from rag_core.settings import RagSettings
from rag_core.types import Answer, Question, Viewer

__all__ = ["Answer", "Question", "Rag", "RagError", "RagSettings", "Viewer", "answer", "open_rag"]
