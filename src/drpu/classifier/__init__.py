"""What a user calls: the classifier, its adaptations, audits and decisions."""
