"""Time as a value: the timing wheel and the operations that wait on it."""
