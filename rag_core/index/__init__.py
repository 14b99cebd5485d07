"""Indexes for search: BM25 and vectors, in files of the data folder or on a Qdrant server."""
