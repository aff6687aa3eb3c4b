"""From a frame to its handler; the table of what is served."""
