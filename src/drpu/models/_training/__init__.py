"""The torch training loop: paired batches, stacks of models, device, precision and seed.

``pools`` holds rows on the device and their order, ``stack`` many networks of one
architecture, ``optimizer`` the updates of their weights, ``loop`` the training run, and
``ratio`` density ratios based on it. Every objective of a positive and an unlabeled batch
can use the same loop.
"""
