"""The discipline `rotation`: ids in one list. A popped id stays in it, with a time stamp, until it is marked done."""
