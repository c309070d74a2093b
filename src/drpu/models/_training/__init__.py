"""The one torch loop: paired batches, a stack of models, device, precision and seed.

``pools`` holds rows on the device and the order in which a run meets them, ``stack``
many networks of one shape behind one call, ``optimizer`` what happens to their weights,
``loop`` the run itself, ``ratio`` density ratios on top of it. Whatever has an objective
over a positive and an unlabeled batch can use the same run.
"""
