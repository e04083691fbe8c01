"""The ground: words, checks, files, registries and processes. It knows nothing of tasks."""
