"""Models: catalog, download, ONNX embedders and rerankers, and the choice of the models in use."""
