-- Tells the time by which leases end.
-- KEYS: 1 leases
-- ARGV: none
-- Reply: ms since 1970.
-- include: clock
return clock()
