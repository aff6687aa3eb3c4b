"""Around the program: installation, the demo, the figures."""
