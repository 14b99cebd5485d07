"""Language models: the protocol of all backends, GGUF models by llama.cpp, and servers that speak OpenAI's protocol."""
