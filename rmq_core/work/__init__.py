"""What every orchestrator does with leases: claim under a name, hold, settle, hand over, keep for a retry.

Law: nothing here knows an orchestrator. Each translates its own words (a task's try, a step of a run, a retry policy)
into a `Claimant`, a threshold, seconds to keep a lease for, and gets the same law for all of them.
"""
