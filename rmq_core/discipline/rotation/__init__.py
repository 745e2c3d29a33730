"""Ids that rotate in one list: popped ids go round with a time stamp until they are marked as done."""
