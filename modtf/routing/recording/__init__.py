"""What the routers of a PyTorch model do with its tokens: `modtf.collect`. PyTorch is imported by nobody here
before it is needed."""
