"""Classifiers as ONNX graphs that take the prior and the cost as inputs."""

from drpu.artifact.onnx.export import export_onnx

__all__ = ["export_onnx"]
