"""Audits: which rows to label, and what the answers say."""
