"""The networks that answer questions."""
