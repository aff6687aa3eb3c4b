"""The process around it: its timers, log, status and maintenance."""
