"""Document import: download, unpack and read a document of a stranger in a confined child process."""
