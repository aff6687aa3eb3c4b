"""The hierarchical timing wheel and delayed operations. Pure."""
