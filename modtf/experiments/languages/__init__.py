"""Languages: a mixture-of-experts language model whose domains and next-token law are known."""
