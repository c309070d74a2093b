"""Scores of models as parts of an ONNX graph."""
