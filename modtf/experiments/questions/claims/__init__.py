"""What the papers on questions claim."""
