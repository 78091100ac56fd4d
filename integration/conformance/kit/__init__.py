"""The parts of integration/conformance/check.py. Nothing here needs more than Python 3.10."""
