"""Episodes and metrics on disk, as JSON lines and images, with the reports made from them."""
