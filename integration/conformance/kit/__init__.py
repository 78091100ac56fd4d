"""The parts of integration/conformance/check.py. They require only Python 3.10."""
