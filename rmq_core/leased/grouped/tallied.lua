-- Counts messages that a lease gets or gives back, and in what the lease holds.
-- KEYS: group_holds
-- include: publications
local function tallied(envelopes, changes)
  for name, n in pairs(counted(envelopes, changes)) do
    redis.call('HINCRBY', group_holds, '\1' .. name, changes.leased * n)
  end
end
