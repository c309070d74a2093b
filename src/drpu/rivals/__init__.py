"""The seven other methods for positive and unlabeled data, with the interface of the classifier."""
