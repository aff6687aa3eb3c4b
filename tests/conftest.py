"""What holds for every test.

A property is checked for what it says, not for how long a shared machine needed.
"""

from hypothesis import settings

settings.register_profile("lakelog", deadline=None)
settings.load_profile("lakelog")
