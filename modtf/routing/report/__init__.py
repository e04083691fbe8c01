"""The routing report: what the modules of a mixture of experts specialise in, as page, tables, pictures."""
