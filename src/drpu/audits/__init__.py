"""Answers to questions about single rows: plans, files of answers, and how they are used."""
