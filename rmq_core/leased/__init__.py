"""The discipline `leased`: a consumer holds all messages of a claim under one lease, which has one deadline."""
