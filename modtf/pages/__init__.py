"""Pages of reports: texts, tables, pictures and the template that turns them into HTML."""
