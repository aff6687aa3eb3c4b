"""Topics and their configurations: the image, and how it is changed."""
