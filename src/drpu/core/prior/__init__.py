"""Class priors of one sample: the value object, and how it is estimated."""
