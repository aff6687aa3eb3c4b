"""The bridge to the tables: following, cold reads, letting segments go."""
