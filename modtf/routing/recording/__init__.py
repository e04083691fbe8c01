"""Record what the routers of a PyTorch model do with its tokens: `modtf.record`, `modtf.collect`.
PyTorch is imported only where it is needed."""
