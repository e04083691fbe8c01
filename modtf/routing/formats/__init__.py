"""Readers of files that hold routing, one format a file."""
