"""Questions about pictures of digits and of letters (SQOOP), answered by networks of modules."""
