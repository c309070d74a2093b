"""Files of fitted classifiers, which contain no training rows, and ONNX export."""
