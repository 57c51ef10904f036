"""SVG: write markup that reproduces an image."""
