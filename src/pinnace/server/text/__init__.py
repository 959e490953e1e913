"""Texts: embeddings and relevance, by models that have a tokenizer.json; needs the extra `text`."""
